// What the numbers of an out-of-memory error say of its cause, and what to try. Rules over the message's own
// numbers; each sentence names those it stands on.
//
//                    room = free, or what the limit leaves where that is less
//   request <= room                  neither memory nor fragmentation: said first, nothing else is blamed
//   cache + room < request           fragmentation isn't the cause
//   otherwise                        the cache would have served it; a cause only as far as it is large
//
// When this error is raised the allocator has given all whole cached segments back, so what is still cached
// lies between live blocks (release_cached_blocks() of c10/cuda/CUDACachingAllocator.cpp); in private pools
// it can't serve others at all.
#pragma once

#include <string>
#include <vector>

#include "report/oom_account.h"

namespace plimsoll {

// Sentences, the cause that holds most first.
std::vector<std::string> findings_of(const OutOfMemoryMessage& message);

}  // namespace plimsoll
