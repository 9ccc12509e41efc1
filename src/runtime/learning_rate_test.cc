// Against the formulas of transformers/optimization.py, evaluated by hand.
#include "runtime/learning_rate.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::runtime {
namespace {

constexpr double kBound = 1e-9;

void expect_rates(const RunSettings& run, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(learning_rate_at(run, static_cast<int64_t>(i) + 1), expected[i], kBound) << "step " << i + 1;
}

// (1 + cos(pi k / 8)) / 2 of k = 0 .. 7
const std::vector<double> kEighths = {1,   0.9619397663, 0.8535533906, 0.6913417162,
                                      0.5, 0.3086582838, 0.1464466094, 0.0380602337};

TEST(LearningRate, RisesFromZeroAndFallsAsHalfACosine) {
  std::vector<double> expected = {0, 0.25, 0.5, 0.75};
  expected.insert(expected.end(), kEighths.begin(), kEighths.end());
  expect_rates({.steps = 12, .learning_rate = 1, .warmup_steps = 4}, expected);
}

TEST(LearningRate, FallsToAPartOfTheHighest) {
  std::vector<double> expected = {0, 1, 2, 3};
  for (double cosine : kEighths) expected.push_back(4 * (0.1 + 0.9 * cosine));
  expect_rates({.steps = 12, .learning_rate = 4, .warmup_steps = 4, .final_learning_rate = 0.1}, expected);
}

TEST(LearningRate, StaysWhereItIsConstant) {
  expect_rates({.steps = 5,
                .learning_rate = 3,
                .schedule = LearningRateSchedule::kConstant,
                .warmup_steps = 3,
                .final_learning_rate = 0.5},
               {0, 1, 2, 3, 3, 3});
}

TEST(LearningRate, BeginsAtTheHighestWithoutAWarmUp) {
  expect_rates({.steps = 8, .learning_rate = 1}, kEighths);
  expect_rates({.steps = 1, .learning_rate = 1}, {1});
}

// The schedule's end is after the last step; a run whose job was made shorter stays there.
TEST(LearningRate, EndsAtTheFinalOneAfterTheLastStep) {
  expect_rates({.steps = 2, .learning_rate = 1, .final_learning_rate = 0.2}, {1, 0.6, 0.2, 0.2});
}

TEST(LearningRate, OfARunThatIsAllWarmUp) {
  expect_rates({.steps = 2, .learning_rate = 1, .warmup_steps = 4}, {0, 0.25});
}

}  // namespace
}  // namespace plimsoll::runtime
