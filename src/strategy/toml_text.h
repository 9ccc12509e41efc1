// Pieces of TOML text.
//
//   quoted_toml("a\"b");        // "a\"b" with quotes around and the inner one escaped
//   toml_key("top.k");          // "top.k" in quotes; plain where TOML allows
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

std::string quoted_toml(std::string_view text);
std::string toml_key(std::string_view key);
std::string toml_number(double number);  // always with a point or an exponent, so that it stays a float

}  // namespace plimsoll
