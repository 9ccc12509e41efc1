// Starts the ranks of a job on this machine, each a process of its own, and ends them together.
//
//   if (procs > 1) return run_local_ranks({.program = "/proc/self/exe", .arguments = arguments, .ranks = 4});
//
// Call it before the first use of LibTorch and from the main thread. Rank 0 has the terminal; what the others
// write to standard error is passed on line by line with the rank before it, their standard output is not
// shown. SIGINT, SIGTERM and SIGHUP go to every rank, a second one kills. When a rank fails the others are
// ended; when this process is killed the kernel kills the ranks (Linux). Nothing is left behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll::runtime {

struct LocalRanks {
  std::string program;
  std::vector<std::string> arguments;  // without the program's name
  int64_t ranks = 1;
  std::chrono::milliseconds grace{2000};  // between SIGTERM and SIGKILL
  std::vector<int> explained;             // a rank that ends with one of these exit codes has said why
};

// The exit code: 0 when every rank's is, 128 + signal after a signal to this process, one of `explained` when
// the first rank that failed ended with it. Errors, none of them the user's: a rank failed in another way
// (its number, and exit code or signal), a process can't be started.
Result<int> run_local_ranks(const LocalRanks& job);

}  // namespace plimsoll::runtime
