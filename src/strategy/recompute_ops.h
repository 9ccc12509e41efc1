// The ops that a selective recompute policy may keep, by ATen name without overload; "sdpa" stands for every
// fused attention kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

const std::vector<std::string>& recompute_ops();
bool is_recompute_op(std::string_view name);

}  // namespace plimsoll
