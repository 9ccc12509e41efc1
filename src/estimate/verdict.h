// Fits, at risk (and what would break it), or out of memory (and where). The one place that decides: the
// page's verdict and those of the changes in "what would help" are answers of the same function.
//
// At risk on the GPU is a job that runs, but
// - only because the allocator, refused by the device, gives cached segments back and tries again. That
// stalls
//   the GPU, and whether it succeeds depends on which blocks happen to be free;
// - or with less to spare than margin_of(): the parts of the device's use that are estimates, once more, and
//   kUnmodelledShare of the GPU for what no estimate sees.
// Segments that the allocator caches beyond what is live are no risk by themselves: it gives them back when
// the device refuses a request.
//
// Does not model: batches of other lengths than the job's, which fragment memory differently.
#pragma once

#include "estimate/estimate.h"

namespace plimsoll {

// Of the GPU's usable memory: other processes, kernels that are compiled or tuned at run time, inputs on
// their way to the device. A rule of thumb.
inline constexpr double kUnmodelledShare = 0.02;

// Of the host's memory: the operating system and the page cache. A rule of thumb.
inline constexpr double kSystemShare = 0.1;

// The bounds that a job is held against.
struct Machine {
  Bytes usable;             // of the GPU; of a memory fraction, that and what is outside the allocator
  Bytes available;          // what is left of the GPU for the allocator
  Bytes allocator_limit;    // what the allocator may take of that
  Bytes estimated_outside;  // of what the process holds outside the allocator: what nobody has measured
  Bytes host_of_rank;       // one rank's share of the node
  Bytes host_of_node;
  int64_t ranks_per_node = 1;
  std::optional<Bytes> disks_of_node;  // all drives together; empty: none on record

  Bytes margin() const;  // that a job must leave of `usable` to fit
};
// `memory_fraction`: the allocator's per_process_memory_fraction. Source: set_per_process_memory_fraction of
// PyTorch, a part of cudaMemGetInfo's total.
Machine machine_of(const EstimateRequest& request, const ResolvedJob& job, const DeviceParts& outside,
                   std::optional<double> memory_fraction);

// What one run asks of it, the highest over all phases.
struct Demand {
  Bytes device;   // with the limit where the job runs within it
  Bytes wanted;   // on a device without limit
  Bytes minimum;  // no allocator could do with less
  Bytes host;     // of one rank's process
  Bytes disk;     // of one rank's file
  int64_t alloc_retries = 0;
  bool has_expandable_segments = false;
};

// `failed`: the request that could not be served, when there was one.
Verdict judge(const Machine& machine, const Demand& demand, std::optional<FailedRequest> failed);

FailedRequest failed_request(const Program& program, const MemoryTimeline& limited);

}  // namespace plimsoll
