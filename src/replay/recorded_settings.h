// The allocator's settings that a snapshot was made under.
#pragma once

#include "allocator/allocator_settings.h"
#include "base/result.h"

namespace plimsoll {

// From the configuration string where there is one, otherwise from the single settings that are shown.
Result<AllocatorSettings> settings_of(const RecordedSettings& recorded, const std::string& file = {});

}  // namespace plimsoll
