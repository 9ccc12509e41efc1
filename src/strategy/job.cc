#include "strategy/job.h"

#include <fmt/format.h>

namespace plimsoll {

std::string Assumption::to_text() const { return fmt::format("{} = {} ({})", field, value, reason); }

}  // namespace plimsoll
