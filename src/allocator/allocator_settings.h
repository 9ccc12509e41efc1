// What PYTORCH_ALLOC_CONF sets of the caching allocator. A default-constructed value is PyTorch's default.
//
//   Result<AllocatorSettings> settings = parse_allocator_settings("expandable_segments:True",
//   "PYTORCH_ALLOC_CONF"); CachingHeap heap({.settings = *settings});
//
// Source: c10/core/AllocatorConfig.h and .cpp, c10/cuda/CUDAAllocatorConfig.h and .cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/rounding.h"
#include "base/result.h"
#include "base/units.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

struct AllocatorSettings {
  std::optional<Bytes> max_split_size;            // larger blocks are never split; empty: no limit
  Bytes max_non_split_rounding{20 * kMiB.value};  // how much larger than the request such a block may be
  Bytes large_segment_size{20 * kMiB.value};
  double garbage_collection_threshold = 0;  // part of the allowed memory, 0: off
  // By interval [1 MiB, 2 MiB), [2 MiB, 4 MiB), ... [32 GiB, infinity); smaller sizes count to the first. 0
  // and 1: off.
  std::array<uint64_t, 16> roundup_power2_divisions{};
  bool expandable_segments = false;
  std::optional<double> per_process_memory_fraction;  // of the device's total
  Bytes pinned_max_round_threshold =
      kUnlimitedDevice;                             // larger pinned requests aren't rounded to a power of two
  Bytes pinned_max_cached_size = kUnlimitedDevice;  // larger pinned blocks aren't kept

  // Settings that were given and change no byte of what is simulated, as "key:value".
  std::vector<std::string> without_effect;

  // The size of the block for a request. REQUIRES 0 < size <= kLargestRequest.
  uint64_t round(uint64_t size) const;
};

// As a snapshot shows them; `text` is what was parsed.
RecordedSettings to_recorded(const AllocatorSettings& settings, std::string text);

// Reads "key:value,key:value". An unknown key, a value that PyTorch would refuse and a setting that isn't
// simulated are errors. `source` names where the text comes from, e.g. the environment variable.
Result<AllocatorSettings> parse_allocator_settings(std::string_view text, std::string_view source);

}  // namespace plimsoll
