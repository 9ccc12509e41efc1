#include "frameworks/torchtitan/training.h"

#include "frameworks/torchtitan/activation_checkpoint.h"
#include "frameworks/torchtitan/architecture.h"
#include "frameworks/torchtitan/forward.h"
#include "frameworks/torchtitan/sharding.h"

namespace plimsoll::torchtitan {
namespace {

const pytorch::TrainingRecipe kRecipe{
    .check = [](const Architecture&, const ResolvedJob&) -> Result<void> { return {}; },  // before renaming
    .record_forward = record_forward,
    .mark_recompute = mark_checkpoints,
    .sharding_plan = sharding_plan};

}  // namespace

// What else has no recipe is refused when the job is resolved (strategy/torchtitan_checks.cc).
Result<void> check_supported(const Architecture& architecture, const ResolvedJob& job) {
  PLIMSOLL_CHECK(torchtitan_architecture(architecture, job.batch.sequence));
  return {};
}

Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job,
                               pytorch::TrainingOptions options) {
  PLIMSOLL_TRY(renamed, torchtitan_architecture(architecture, job.batch.sequence));
  options.recipe = &kRecipe;
  return pytorch::build_training(renamed, job, options);
}

}  // namespace plimsoll::torchtitan
