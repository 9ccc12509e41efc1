// How the ranks of a run speak with one voice: what every rank knows, rank 0 says.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/communicator.h"

namespace plimsoll {

// What a rank found that has to be the same on all of them.
struct Fact {
  std::string name;   // "the job"; for the message
  std::string value;  // of several lines the first one that differs is told
};

// Every rank brings what went wrong on it, and what it found: facts of the same names in the same order.
// Errors: a rank has one, named if it isn't rank 0 or all; facts that differ, with which ranks found what.
// These are the same on all ranks. What the communicator says is each rank's own.
Result<void> agree(runtime::Communicator& communicator, const Result<void>& own,
                   const std::vector<Fact>& facts);

// Ends every rank with an error that all of them have: rank 0 prints it before the first of them leaves. The
// exit code. Where the ranks don't meet any more, rank 0 may not have spoken: the others get the error back,
// to print it themselves.
Result<int> end_together(runtime::Communicator& communicator, const Error& error);

}  // namespace plimsoll
