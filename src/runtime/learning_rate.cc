#include "runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace plimsoll::runtime {

double learning_rate_at(const RunSettings& run, int64_t step) {
  const auto before = static_cast<double>(step - 1);  // steps that were taken
  const auto warmup = static_cast<double>(run.warmup_steps);
  if (before < warmup) return run.learning_rate * before / warmup;
  if (run.schedule == LearningRateSchedule::kConstant) return run.learning_rate;
  const auto length = static_cast<double>(std::max<int64_t>(1, run.steps - run.warmup_steps));
  const double passed = std::min(1.0, (before - warmup) / length);
  const double cosine = (1 + std::cos(std::numbers::pi * passed)) / 2;
  return run.learning_rate * (run.final_learning_rate + (1 - run.final_learning_rate) * cosine);
}

}  // namespace plimsoll::runtime
