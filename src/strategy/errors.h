// Several mistakes as one error, so that a user can mend all of them at once.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll {

// A single error stays itself; of more, the message is "`count` `what`" and lists them. REQUIRES
// !errors.empty().
Error combined(std::vector<Error> errors, std::string_view what);

}  // namespace plimsoll
