// Why cached memory went back to the device: at the program's wish, or because malloc() had to. A trace shows
// only the segments that went, one after the other; what tells why, in this order:
//
//   its stack       "empty_cache": the program asked. That of the request behind it: malloc() did it
//   what follows    an out-of-memory error: everything went and it wasn't enough. New memory for a request:
//                   malloc() may have done it, to get that memory. Anything else: the program
//   the request     one that the given back memory would have served: the program; malloc() looks there first
//   the level       where the memory that was wanted then could be had at another time, nothing was full:
//                   the program asked, just before a request that needed memory
//   the settings    malloc() that had to: with garbage_collection_threshold old large segments, with
//                   max_split_size_mb an oversize segment, otherwise all, because the device was full
//
// A device that was full shows how much of it the allocator could have (DeviceLimit).
// Source: malloc, release_cached_blocks, garbage_collect_cached_blocks, release_available_cached_blocks and
// emptyCache in c10/cuda/CUDACachingAllocator.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trace/allocation_trace.h"

namespace plimsoll {

enum class GiveBackReason : uint8_t {
  kProgram,      // torch.cuda.empty_cache(), a pool that is gone
  kDeviceFull,   // num_alloc_retries counts these: the device is waited for
  kOutOfMemory,  // and still it wasn't enough
  kOversize,     // one that max_split_size keeps whole
  kGarbageCollection
};
inline constexpr size_t kNumGiveBackReasons = 5;

struct GiveBack {
  GiveBackReason reason = GiveBackReason::kProgram;
  bool is_certain = true;      // by a stack or an error; else by shape and level
  size_t first = 0, last = 0;  // events
  int64_t segments = 0;
  Bytes bytes;
  Bytes reserved;               // before
  std::optional<Bytes> wanted;  // from the device, right after
};

// What the allocator could have of the device, told by requests to it that failed.
struct DeviceLimit {
  Bytes at_least;
  std::optional<Bytes> below;  // empty: `at_least` is exact, by the free memory that an error names
};

struct GiveBacks {
  std::vector<GiveBack> all;  // in order of events
  std::optional<DeviceLimit> limit;

  const GiveBack* at(size_t event) const;  // the one that the event is of
};

GiveBacks find_give_backs(const AllocationTrace& trace);

// As memory_stats()["num_alloc_retries"] counts: each time that a full device made malloc() give all back.
int64_t num_retries(const GiveBacks& given_back);

}  // namespace plimsoll
