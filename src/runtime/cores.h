// How many of its machine's cores a rank computes with, where the job doesn't say: those that the process may
// run on, divided among the ranks that may run on any of them. So ranks that a launcher bound to cores of
// their own have these, ranks in one cpuset divide it, and others the machine.
//
//   PLIMSOLL_TRY(cores, cores_of_rank(communicator));   // every rank calls it
//
// Source: sched_getaffinity(2), which counts what cpusets allow; ranks are on one machine when they have one
// boot_id (proc(5)), containers or not. Does not model: quotas of processor time (cgroup's cpu.max).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/communicator.h"

namespace plimsoll::runtime {

struct AllowedCores {
  std::string machine;
  std::vector<int> cores;  // ascending

  std::string to_text() const;  // "1f2e...: 0 1 2"
};
AllowedCores allowed_cores();                                                // of this process
AllowedCores allowed_cores_of(const std::string& text);                      // of to_text()
int64_t cores_of_rank(const std::vector<AllowedCores>& ranks, size_t rank);  // at least 1

// Errors: what collectives say.
Result<int64_t> cores_of_rank(Communicator& communicator);

}  // namespace plimsoll::runtime
