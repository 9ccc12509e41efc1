// What is known of Megatron-LM's arguments without reading their values.
#pragma once

#include <string_view>

namespace plimsoll {

// Of learning rates, data, logging, checkpoints and the like: no byte on the GPU depends on it.
bool is_without_bytes(std::string_view argument);
// Why a job with it has no recipe yet; empty: nothing is known against it.
std::string_view why_unsupported(std::string_view argument);

}  // namespace plimsoll
