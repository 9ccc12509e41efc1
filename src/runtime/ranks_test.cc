// The same training on other numbers of ranks and in other ZeRO stages: the same losses, and on each rank the
// bytes that its program says.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "runtime/communication/in_process.h"
#include "runtime/rank_program/run_ranks.h"
#include "runtime/tiny_run.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kRows = 8;  // of the global batch
constexpr int kSteps = 6;

std::vector<std::string> settings_of(int64_t ranks, int64_t stage, int64_t accumulation,
                                     const std::string& precision = "fp32") {
  return {"parallel.engine=zero",
          "precision=" + precision,
          fmt::format("zero.stage={}", stage),
          fmt::format("hardware.gpus={}", ranks),
          "batch.sequence=16",
          fmt::format("batch.micro_batch={}", kRows / ranks / accumulation),
          fmt::format("batch.global_batch={}", kRows)};
}

// What every rank reports.
struct Steps {
  std::vector<double> losses, norms;
  bool operator==(const Steps&) const = default;
};
Steps steps_of(int64_t ranks, int64_t stage, int64_t accumulation, const std::string& precision = "fp32",
               const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = settings_of(ranks, stage, accumulation, precision);
  settings.insert(settings.end(), more.begin(), more.end());
  const InProcessGroup group(ranks, std::chrono::seconds(60));
  std::vector<Steps> steps(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      at::set_num_threads(1);
      const std::unique_ptr<Communicator> communicator = group.join(r);
      const Result<TinyRun> run = play_tiny(*communicator, settings, kSteps);
      if (!run) {
        ADD_FAILURE() << run.error().to_text();
        return;
      }
      for (const StepReport& step : run->steps) {
        steps[static_cast<size_t>(r)].losses.push_back(step.loss);
        steps[static_cast<size_t>(r)].norms.push_back(step.gradient_norm);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Steps& other : steps) EXPECT_TRUE(other == steps[0]);
  return steps[0];
}

// fp32: sums of other micro-batches are rounded in another order, and Adam divides small gradients by their
// own size.
constexpr double kRelative = 1e-6, kRelativeOfNorm = 1e-5;

void expect_same(const std::vector<double>& values, const std::vector<double>& expected, double relative) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i] / expected[i], 1, relative) << "step " << i + 1;
}
void expect_same(const Steps& steps, const Steps& expected) {
  expect_same(steps.losses, expected.losses, kRelative);
  expect_same(steps.norms, expected.norms, kRelativeOfNorm);
}

class Ranks : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Numbers, Ranks, testing::Values(2, 4));

TEST_P(Ranks, StagesHaveTheSameLosses) {
  for (const char* precision : {"fp32", "bf16-mixed"}) {
    const Steps expected = steps_of(GetParam(), 0, 1, precision);
    EXPECT_LT(expected.losses[4], expected.losses[0] - 0.1)
        << "the same batch: nothing was learnt that could differ";
    for (const int64_t stage : {1, 2, 3}) expect_same(steps_of(GetParam(), stage, 1, precision), expected);
  }
}

// Rows, columns and norms are summed over the ranks, and pieces of them are rounded to fp32 before.
TEST_P(Ranks, StagesHaveTheSameLossesWithAdafactor) {
  const std::vector<std::string> adafactor = {"optimizer.name=adafactor", "train.learning_rate=0.005"};
  for (const char* precision : {"fp32", "bf16-mixed"}) {
    const Steps expected = steps_of(GetParam(), 0, 1, precision, adafactor);
    EXPECT_LT(expected.losses[4], expected.losses[0] - 0.1)
        << "the same batch: nothing was learnt that could differ";
    for (const int64_t stage : {1, 2, 3})
      expect_same(steps_of(GetParam(), stage, 1, precision, adafactor), expected);
    if (precision == std::string("fp32")) expect_same(steps_of(1, 0, 1, precision, adafactor), expected);
  }
}

TEST_P(Ranks, NumbersOfRanksHaveTheSameLosses) {
  const Steps expected = steps_of(1, 0, 1);
  for (const int64_t stage : {0, 3}) expect_same(steps_of(GetParam(), stage, 1), expected);
  expect_same(steps_of(GetParam(), 2, 2), expected);
}

// An evaluation is the loss of the step that follows on the same batch: nothing of the model changes between.
TEST(Evaluation, IsTheLossOfTheNextStep) {
  for (const int64_t stage : {0, 3}) {
    const InProcessGroup group(2, std::chrono::seconds(60));
    const auto play = [&](int64_t rank) {
      at::set_num_threads(1);
      const std::unique_ptr<Communicator> communicator = group.join(rank);
      const Result<TinyRun> run = play_tiny(*communicator, settings_of(2, stage, 2), 3, {.evaluates = true});
      ASSERT_TRUE(run) << run.error().to_text();
      for (size_t i = 0; i < run->steps.size(); ++i)
        EXPECT_FLOAT_EQ(run->evaluations[i], run->steps[i].loss) << "stage " << stage << " step " << i + 1;
    };
    std::thread other(play, 1);
    play(0);
    other.join();
  }
}

// What is offloaded is computed elsewhere, by the same kernels: the same bits.
TEST_P(Ranks, OffloadChangesNoBit) {
  for (const auto& [precision, optimizer] :
       {std::pair("fp32", "adamw"), std::pair("bf16-mixed", "adamw"), std::pair("fp32", "adafactor"),
        std::pair("bf16-mixed", "adafactor")})
    for (const int64_t stage : {0, 1, 2, 3}) {
      const std::vector<std::string> clips = {"loop.clip_max_norm=0.5",
                                              std::string("optimizer.name=") + optimizer};
      const Steps expected = steps_of(GetParam(), stage, 2, precision, clips);
      for (const std::string target : {"host", "disk"}) {
        std::vector<std::string> offload = {"offload.activations=host", "offload.optimizer=" + target,
                                            "offload.directory=/tmp"};
        if (stage == 3) offload.emplace_back("offload.parameters=host");
        offload.insert(offload.end(), clips.begin(), clips.end());
        EXPECT_TRUE(steps_of(GetParam(), stage, 2, precision, offload) == expected)
            << target << ", stage " << stage << ", " << precision << ", " << optimizer;
      }
    }
}

struct Bytes {
  int64_t ranks, stage;
  std::string more;
};
class RankBytes : public testing::TestWithParam<Bytes> {};
INSTANTIATE_TEST_SUITE_P(Stages, RankBytes,
                         testing::Values(Bytes{1, 0}, Bytes{2, 0}, Bytes{2, 1}, Bytes{2, 2}, Bytes{2, 3},
                                         Bytes{4, 2}, Bytes{4, 3},
                                         Bytes{1, 0, "offload.activations=host offload.optimizer=host"},
                                         Bytes{2, 1, "offload.optimizer=disk offload.directory=/tmp"},
                                         Bytes{2, 2, "offload.activations=host recompute.mode=full"},
                                         Bytes{1, 3,
                                               "offload.optimizer=disk offload.directory=/tmp "
                                               "offload.parameters=host"},
                                         Bytes{2, 3,
                                               "offload.activations=host offload.optimizer=host "
                                               "offload.parameters=host precision=bf16-mixed"}));
// One rank is stage 0.
std::vector<Bytes> adafactors_bytes() {
  std::vector<Bytes> all;
  for (const int64_t ranks : {1, 2, 4})
    for (const int64_t stage : {0, 1, 2, 3})
      for (const std::string precision : {"fp32", "bf16-mixed"})
        if (ranks > 1 || stage == 0)
          all.push_back({ranks, stage, "optimizer.name=adafactor precision=" + precision});
  for (const std::string offload : {"offload.optimizer=host", "offload.optimizer=disk offload.directory=/tmp",
                                    "offload.optimizer=host offload.parameters=host",
                                    "offload.optimizer=disk offload.directory=/tmp precision=bf16-mixed"})
    for (const int64_t ranks : {1, 2}) all.push_back({ranks, 3, "optimizer.name=adafactor " + offload});
  return all;
}
INSTANTIATE_TEST_SUITE_P(Adafactor, RankBytes, testing::ValuesIn(adafactors_bytes()));

// One allocator counts a process, so each rank is one.
TEST_P(RankBytes, AreWhatTheProgramSays) {
  const auto& [ranks, stage, more] = GetParam();
  std::string arguments;
  for (const std::string& setting : settings_of(ranks, stage, kRows / ranks)) arguments += " " + setting;
  arguments += " " + more;
  const RanksRun run = run_ranks(fmt::format("{} play{}", ranks, arguments));
  EXPECT_EQ(run.exit_code, 0) << run.output;
}

}  // namespace
}  // namespace plimsoll::runtime
