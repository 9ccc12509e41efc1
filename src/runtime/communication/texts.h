// Short texts between the ranks: what each found, what each measured.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/communicator.h"

namespace plimsoll::runtime {

// What every rank said, by rank; on all ranks. Errors: what the collectives say.
Result<std::vector<std::string>> gather_texts(Communicator& communicator, const std::string& own);

// Returns when every rank is here.
Result<void> meet(Communicator& communicator);

}  // namespace plimsoll::runtime
