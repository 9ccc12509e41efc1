#include "allocator/allocator_settings.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace plimsoll {

uint64_t AllocatorSettings::round(uint64_t size) const {
  if (size < kMinBlock) return kMinBlock;
  const int interval = std::clamp(static_cast<int>(std::bit_width(size)) - 1 - 20, 0, 15);
  const uint64_t divisions = roundup_power2_divisions[static_cast<size_t>(interval)];
  if (divisions > 1 && size > kMinBlock * divisions) return round_to_division(size, divisions);
  return round_to_block(size);
}

RecordedSettings to_recorded(const AllocatorSettings& settings, std::string text) {
  return {.text = std::move(text),
          .max_split_size = settings.max_split_size,
          .garbage_collection_threshold = settings.garbage_collection_threshold,
          .expandable_segments = settings.expandable_segments,
          .roundup_power2_divisions = settings.roundup_power2_divisions};
}

}  // namespace plimsoll
