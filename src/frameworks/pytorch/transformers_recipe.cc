#include "frameworks/pytorch/supported.h"
#include "frameworks/pytorch/training.h"
#include "program/passes/recompute.h"

namespace plimsoll::pytorch {

const TrainingRecipe& transformers_recipe() {
  static const TrainingRecipe recipe{
      .check = check_supported,
      .record_forward = record_forward,
      .mark_recompute = [](Program& forward,
                           const ResolvedJob& job) { return mark_recompute(forward, job.recompute); },
      .sharding_plan = transformers_plan};
  return recipe;
}

}  // namespace plimsoll::pytorch
