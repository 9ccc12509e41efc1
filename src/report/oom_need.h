// How much less had to be held for the request of an out-of-memory error to be served.
//
//   |-------- tensors --------|-- cached --|-- beside, other processes --|-- free --|
//
// A request is served by a cached piece that is large enough, or by a new segment from what is free and
// within the limit: the room. The cache is in pieces between live blocks, since whole cached segments were
// given back before the error (release_cached_blocks() of c10/cuda/CUDACachingAllocator.cpp). So:
//
//   at best    all of the cache is of use        tensor - room - cached
//   at worst   none is, whole segments must go   segment - room
//
// With all tensors gone the cache is whole segments too: more than all of them never has to go for
// a request that room, cache and tensors together can serve. Where they can't, others hold what is missing.
// An older text of XPU doesn't say what is free: the room is then known to be no more than what PyTorch
// doesn't hold.
#pragma once

#include <optional>

#include "trace/out_of_memory_message.h"

namespace plimsoll {

struct OomNeed {
  Bytes least_room, most_room;    // the same where the message says it
  bool is_beyond_device = false;  // more than the device has, or the limit allows: nothing makes room for it
  Bytes missing;                  // that even without any tensor of the job would not be there
  Bytes least, enough;            // less to be held, at best and at worst
};

// Whether the message says a limit and what counts against it: reserved memory, of MPS all of the process.
bool is_limit_counted(const OutOfMemoryMessage& message);

// Empty: the message doesn't say enough. REQUIRES `counted`, what a limit counts of this process.
std::optional<OomNeed> need_of(const OutOfMemoryMessage& message, Bytes counted);

}  // namespace plimsoll
