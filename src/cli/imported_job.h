// Jobs of `--from FILE`: configurations of other frameworks, each kind one row of a table.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "strategy/job.h"

namespace plimsoll {

struct ImportedJob {
  Job job;
  std::vector<std::string> notes;  // that every report shows
};

// Errors: no kind of file that is known, or that kind's own.
Result<ImportedJob> read_foreign_job(const std::string& file);

}  // namespace plimsoll
