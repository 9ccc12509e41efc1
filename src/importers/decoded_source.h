// Text in UTF-16, as PowerShell's `>` and Tee-Object write logs, told by its byte order mark.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

bool is_utf16(std::string_view bytes);
// In UTF-8, without the mark; half of a pair becomes U+FFFD. REQUIRES is_utf16(bytes).
std::string utf8_of_utf16(std::string_view bytes);

}  // namespace plimsoll
