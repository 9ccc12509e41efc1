#include "replay/recorded_settings.h"

namespace plimsoll {

Result<AllocatorSettings> settings_of(const RecordedSettings& recorded) {
  if (!recorded.text.empty())
    return parse_allocator_settings(recorded.text, "the snapshot's PYTORCH_CUDA_ALLOC_CONF");
  AllocatorSettings settings;
  settings.max_split_size = recorded.max_split_size;
  settings.garbage_collection_threshold = recorded.garbage_collection_threshold;
  settings.expandable_segments = recorded.expandable_segments;
  settings.roundup_power2_divisions = recorded.roundup_power2_divisions;
  return settings;
}

}  // namespace plimsoll
