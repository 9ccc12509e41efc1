// What ends a run: numbers that are none, before anything is updated.
#include "runtime/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/tiny_run.h"

namespace plimsoll::runtime {
namespace {

using testing::HasSubstr;

// A run of one rank on the same tokens always.
struct Tiny {
  Architecture architecture;
  ResolvedJob job;
  std::unique_ptr<TrainingRun> run;

  Result<StepReport> step() const {
    return run->step([](int64_t, int64_t, at::Tensor& ids, at::Tensor& labels) -> Result<void> {
      ids.fill_(3);
      labels.fill_(4);
      return {};
    });
  }
  // The next step's gradients, all of them.
  void set_gradients(double value) const {
    run->after_backward = [this, value]() -> Result<void> {
      for (const native::UnitTensors& u : run->training().units)
        run->executor().tensor(u.gradient).fill_(value);
      return {};
    };
  }
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> all;
    for (const native::UnitTensors& u : run->training().units)
      all.push_back(run->executor().tensor(u.master).clone());
    return all;
  }
};

Result<std::unique_ptr<Tiny>> make_tiny(const std::vector<std::string>& settings, WeightSource weights = {},
                                        Communicator* communicator = nullptr) {
  PLIMSOLL_TRY(architecture, tiny_llama());
  Job job;
  job.framework = Framework::kNative;
  job.model.name = "tiny";
  job.hardware.gpu = "cpu";
  PLIMSOLL_CHECK(apply_setting(job, "batch.sequence=16"));
  for (const std::string& setting : settings) PLIMSOLL_CHECK(apply_setting(job, setting));
  PLIMSOLL_TRY(resolved, resolve(job, architecture, {.name = "cpu"}));
  auto tiny = std::make_unique<Tiny>(Tiny{.architecture = architecture, .job = resolved, .run = nullptr});
  PLIMSOLL_TRY(run, TrainingRun::make({.architecture = tiny->architecture,
                                       .job = tiny->job,
                                       .weights = weights ? weights : fresh_weights(tiny->architecture, 1),
                                       .communicator = communicator}));
  tiny->run = std::move(run);
  return tiny;
}

class Norms : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Steps, Norms,
                         testing::Values("loop.clip_max_norm=1", "optimizer.name=adamw",
                                         "optimizer.name=adafactor", "offload.optimizer=host"));

TEST_P(Norms, ThatAreNoNumbersChangeNothing) {
  for (const double wrong :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const auto tiny = make_tiny({GetParam()});
    ASSERT_TRUE(tiny) << tiny.error().to_text();
    ASSERT_TRUE((*tiny)->run->load());
    ASSERT_TRUE((*tiny)->step());
    const std::vector<at::Tensor> before = (*tiny)->weights();
    (*tiny)->set_gradients(wrong);
    const Result<StepReport> step = (*tiny)->step();
    ASSERT_FALSE(step);
    EXPECT_EQ(step.error().message, std::isnan(wrong) ? "the gradient norm of step 2 is nan"
                                                      : "the gradient norm of step 2 is inf");
    EXPECT_THAT(step.error().hint, HasSubstr("train.learning_rate"));
    EXPECT_FALSE(step.error().is_internal);
    EXPECT_TRUE((*tiny)->run->is_loss_wrong());
    EXPECT_EQ((*tiny)->run->steps_done(), 1);
    const std::vector<at::Tensor> after = (*tiny)->weights();
    for (size_t u = 0; u < before.size(); ++u) EXPECT_TRUE(after[u].equal(before[u])) << u;
  }
}

// Its square doesn't fit into fp32, the norm does.
TEST(Norm, OfLargeGradientsIsANumber) {
  constexpr double kLarge = 1e21;
  const auto tiny = make_tiny({"loop.clip_max_norm=1"});
  ASSERT_TRUE(tiny) << tiny.error().to_text();
  ASSERT_TRUE((*tiny)->run->load());
  (*tiny)->set_gradients(kLarge);
  const Result<StepReport> step = (*tiny)->step();
  ASSERT_TRUE(step) << step.error().to_text();
  double elements = 0;
  for (const native::UnitTensors& u : (*tiny)->run->training().units)
    elements += static_cast<double>((*tiny)->run->executor().tensor(u.master).numel());
  EXPECT_NEAR(step->gradient_norm / (kLarge * std::sqrt(elements)), 1, 1e-6);
}

}  // namespace
}  // namespace plimsoll::runtime
