// What the numbers of an out-of-memory error say of its cause, and what to try. Rules over the message's own
// numbers; each sentence names those it stands on.
//
//                    room = free, or what the limit leaves where that is less
//   segment <= room                  neither memory nor fragmentation: said first, nothing else is blamed
//   cache + room < tensor            fragmentation isn't the cause
//   otherwise                        the cache might have served it; a cause only as far as it is large
//
// How much less had to be held is report/oom_need.h's, the tensor's size report/oom_request.h's. What is
// cached in private pools can't serve others at all. Figures that contradict each other
// (report/oom_contradictions.h) are as if the message didn't say them.
#pragma once

#include <string>
#include <vector>

#include "report/oom_account.h"

namespace plimsoll {

// Sentences, the cause that holds most first.
std::vector<std::string> findings_of(const OutOfMemoryMessage& message);

}  // namespace plimsoll
