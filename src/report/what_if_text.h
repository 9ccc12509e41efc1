// The part of replay's page that sets other settings and devices beside what was recorded.
#pragma once

#include <string>

#include "report/replay_page.h"

namespace plimsoll {

// "100.00 MiB asked for by model.py:3 f; allocated 4.00 GiB, reserved 5.00 GiB then, the device had 0.10 GiB
// free".
std::string refused_text(const DeviceReplay& device, const OutOfMemory& refused,
                         const std::optional<FrameId>& frame);

// `device_text`: which device was asked for, and what of it is the allocator's; empty: none was. The whole is
// empty when nothing was asked for.
std::string what_if_text(const DeviceReplay& device, const std::string& device_text);

}  // namespace plimsoll
