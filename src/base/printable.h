// Text of a stranger's file or command line, for a terminal: control characters, which could move the cursor
// or rename the window, and bytes that are not UTF-8 are written as \xNN. New lines stay.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

std::string printable(std::string_view text);

}  // namespace plimsoll
