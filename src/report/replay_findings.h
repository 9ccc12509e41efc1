// The parts of replay's page that say what could be done about the memory: blocks that outlive their use.
#pragma once

#include <string>

#include "report/replay_page.h"

namespace plimsoll {

std::string_view name_of(HeldKind kind);
std::string_view name_of(HeldUntil until);

// Empty when nothing of a size that matters was found.
std::string held_blocks_text(const DeviceReplay& device, const ReplayPageOptions& options);

}  // namespace plimsoll
