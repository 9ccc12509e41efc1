// Ranks that are processes, on CPUs: LibTorch's Gloo carries the bytes.
//
//   PLIMSOLL_TRY(place, detect_process_place(environment()));
//   PLIMSOLL_TRY(communicator, make_gloo_communicator(place, {}));
//
// Gloo's own collectives need a temporary as large as the tensor and don't compare what the ranks call. Here
// they are built of its sends and receives, which read and write the tensors where they are; ranks on one
// machine read each other's memory, if they may, and send only what they call (carrier.h). A sum has scratch
// of up to kSumScratch bytes for each other rank, which the allocator sees as the operator's. A thread of the
// communicator runs them while the caller computes.
//
// A rank that dies closes its connections, on each of which another rank waits (neighbour_watch.h). Whoever
// notices writes it down in the store and calls the roll there; ranks that compute look twice a second,
// answer and end their connections too. So all fail within seconds, which failure() tells without a
// collective, and name the rank that did not answer, the same one (roll_call.h). A communicator that failed
// stays so. Does not model: several networks, GPUs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "runtime/communicator.h"
#include "runtime/launch/process_place.h"

namespace plimsoll::runtime {

inline constexpr int64_t kSumChunk = int64_t{1} << 19;  // bytes of one message of a sum
inline constexpr int64_t kSumScratch = 2 * kSumChunk;   // one is added while the next arrives

struct GlooOptions {
  std::chrono::milliseconds start_timeout = std::chrono::minutes(2);  // until all ranks are there
  std::chrono::milliseconds timeout = std::chrono::minutes(10);       // of a wait for another rank
  bool may_read_directly = true;                                  // the memory of other ranks on this machine
  std::chrono::milliseconds roll_call = std::chrono::seconds(3);  // to answer, after a failure
};

// Waits for all ranks. A place of one rank has a communicator too, which moves nothing. Errors: ranks that
// did not come, a store that can't be reached.
Result<std::unique_ptr<Communicator>> make_gloo_communicator(const ProcessPlace& place,
                                                             const GlooOptions& options);

}  // namespace plimsoll::runtime
