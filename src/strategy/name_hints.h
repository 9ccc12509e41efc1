// What a user may mean by a word that is no name of a choice, but is one elsewhere.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// For the field of that path; empty: nothing is known of the word.
//
//   name_hint("parallel.engine", "zero3");  // "fsdp2 shards parameters, ... as ZeRO-3 does"
std::string name_hint(std::string_view path, std::string_view word);

}  // namespace plimsoll
