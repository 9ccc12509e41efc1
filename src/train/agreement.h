// How the ranks of a run speak with one voice: what every rank knows, rank 0 says.
#pragma once

#include <string>

#include "base/result.h"
#include "runtime/communicator.h"

namespace plimsoll {

// Before the first step: every rank brings what went wrong on it, and its job as TOML. Errors, the same on
// all ranks: a rank has one, named if it isn't rank 0 or all; ranks with other jobs than rank 0's.
Result<void> agree(runtime::Communicator& communicator, const Result<void>& own, const std::string& job);

// Ends every rank with an error that all of them have: rank 0 prints it before the first of them leaves. The
// exit code.
int end_together(runtime::Communicator& communicator, const Error& error);

}  // namespace plimsoll
