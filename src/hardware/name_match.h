// Names a user may have meant.
//
//   close_matches("h10-80gb", names);  // {"h100-80gb"}
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// As names are compared: lower case, with '-' for spaces and '_'.
std::string normalized_name(std::string_view name);

// Insertions, deletions and replacements that turn one into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// Those of `names` that hold the name, in their order, then those within a third of its length, nearest
// first.
std::vector<std::string> close_matches(std::string_view name, const std::vector<std::string>& names);

}  // namespace plimsoll
