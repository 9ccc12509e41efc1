// Jobs of `--from FILE` whose configuration is torchtitan's; Megatron-LM's arguments are read in
// job_options.cc, since they bring their own model and need the GPUs of the command line.
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

bool is_torchtitan_file(const std::string& file);  // by its ending
Result<ImportedJob> read_torchtitan_job(const std::string& file);

}  // namespace plimsoll
