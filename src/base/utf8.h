// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll {

// Bytes of the character that starts at `at`; 0: none does. REQUIRES at < text.size().
size_t utf8_length(std::string_view text, size_t at);
bool is_utf8(std::string_view text);

}  // namespace plimsoll
