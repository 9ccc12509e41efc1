// The arguments that say which job is meant, shared by the commands that look at one: a job file, flags that
// override it, and --set for any field, which overrides both.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "hardware/cluster.h"
#include "hardware/gpu.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

struct JobOptions {
  std::optional<std::string> model, job_file, cluster, from;
  std::map<std::string, std::optional<std::string>> fields;  // by path in the job file, from flags
  std::vector<std::string> settings;                         // "a.b=c"

  std::vector<Argument> arguments();        // they point into this object
  std::vector<std::string> inputs() const;  // what may name a file that is read
};

struct LoadedJob {
  Job job;
  Architecture architecture;
  Gpu gpu;
  Cluster cluster;
};

Result<LoadedJob> load_job(const JobOptions& options);

}  // namespace plimsoll
