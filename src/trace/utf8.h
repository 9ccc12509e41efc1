// Text of any origin as valid UTF-8: what isn't becomes U+FFFD, byte by byte, so that readers accept it.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

std::string to_valid_utf8(std::string_view text);

// A JSON string with its quotes.
std::string to_json_string(std::string_view text);

}  // namespace plimsoll
