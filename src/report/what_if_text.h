// The part of replay's page that sets other settings and devices beside what was recorded.
#pragma once

#include <string>

#include "report/replay_page.h"

namespace plimsoll {

// `device_text`: which device was asked for, and what of it is the allocator's; empty: none was. The whole is
// empty when nothing was asked for.
std::string what_if_text(const DeviceReplay& device, const std::string& device_text);

}  // namespace plimsoll
