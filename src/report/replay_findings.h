// Parts of replay's page: what named ranges hold, blocks that outlive their use, cached memory that went back
// to the device, how the twin did.
#pragma once

#include <string>

#include "report/replay_page.h"

namespace plimsoll {

std::string_view name_of(HeldKind kind);
std::string_view name_of(HeldUntil until);

// Of the blocks of the peak; empty when nothing is named.
std::string annotations_text(const DeviceReplay& device, const ReplayPageOptions& options);

std::string_view name_of(GiveBackReason reason);

// How many forwards, backwards and optimizer steps there were, and what tells.
std::string steps_text(const StepPhases& phases);

// Empty when nothing of a size that matters was found.
std::string held_blocks_text(const DeviceReplay& device, const ReplayPageOptions& options);

// Empty when nothing went.
std::string give_backs_text(const GiveBacks& given_back);
std::string twin_text(const ReplayResult& replay);

}  // namespace plimsoll
