// A job and its model from Megatron-LM's arguments.
//
//   PLIMSOLL_TRY(arguments, read_megatron_arguments(path));
//   PLIMSOLL_TRY(imported, megatron_job(arguments, {.gpus = 8}));
//   resolve(imported.job, imported.architecture, gpu);
//
// Arguments that are not known here are counted and named in the architecture's notes; those that change what
// is allocated in a way that has no recipe yet are refused by name. Source of names and defaults:
// megatron/training/arguments.py.
#pragma once

#include <cstdint>

#include "importers/megatron/arguments.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

struct MegatronJobOptions {
  int64_t gpus = 8;  // of the whole job: an argument list doesn't say
};

struct MegatronJob {
  Job job;
  Architecture architecture;
};

Result<MegatronJob> megatron_job(const MegatronArguments& arguments, const MegatronJobOptions& options);

}  // namespace plimsoll
