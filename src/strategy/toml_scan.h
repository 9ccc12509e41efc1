// A look at TOML text before it is parsed: outside texts and comments TOML is printable ASCII. Names the
// place of the first letter that isn't, such as a quotation mark that an editor has curled; toml++ 3.3 leaves
// what it does with these undefined.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace plimsoll {

// Offset of the first byte that can't stand where it does; empty: none. Unclosed texts are left to the
// parser.
std::optional<size_t> find_foreign_byte(std::string_view toml);

// Offset of the first byte that lies deeper than a job's fields can: in more than kMaxTomlDepth brackets, or
// behind as many dots of one key. toml++ nests a table for each and recurses over them.
inline constexpr int kMaxTomlDepth = 40;
std::optional<size_t> find_too_deep(std::string_view toml);

}  // namespace plimsoll
