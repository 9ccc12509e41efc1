#include "frameworks/build_training.h"

#include "frameworks/megatron/training.h"
#include "frameworks/native/training.h"
#include "frameworks/pytorch/supported.h"
#include "frameworks/pytorch/training.h"
#include "frameworks/torchtitan/training.h"

namespace plimsoll {

// strategy/ refuses all frameworks but these.
Result<Program> build_training_program(const Architecture& architecture, const ResolvedJob& job,
                                       int64_t rank) {
  if (job.framework == Framework::kMegatron)
    return megatron::build_training(architecture, job, {.pipeline_rank = rank});
  if (job.framework == Framework::kTorchtitan) return torchtitan::build_training(architecture, job);
  if (job.framework != Framework::kNative) return pytorch::build_training(architecture, job);
  PLIMSOLL_TRY(training, native::build_training(architecture, job));
  return std::move(training.program);
}

// What the native runtime can't do is refused when the job is resolved (strategy/native_checks.cc).
Result<void> check_framework_supports(const Architecture& architecture, const ResolvedJob& job) {
  if (job.framework == Framework::kNative || job.framework == Framework::kMegatron) return {};
  if (job.framework == Framework::kTorchtitan) return torchtitan::check_supported(architecture, job);
  return pytorch::check_supported(architecture, job);
}

int64_t distinct_ranks(const ResolvedJob& job) {
  return job.framework == Framework::kMegatron ? job.mesh.pipeline : 1;
}

}  // namespace plimsoll
