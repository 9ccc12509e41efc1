// Checkpoints: a resumed run goes on as if it had not stopped, on any number of ranks and in any ZeRO stage;
// a save that fails leaves the last one.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "train/checkpoint_pieces.h"
#include "train/checkpoint_test_helpers.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Losses of the steps after the break.
std::vector<double> second_half(const std::vector<double>& losses) {
  return {losses.begin() + kBreak, losses.end()};
}

const std::vector<std::string> kOnHost = {"offload.optimizer=host", "offload.activations=host"};
const std::vector<std::string> kOnDisk = {"offload.optimizer=disk", "offload.directory=/tmp"};
const std::vector<std::string> kAllOnHost = {"offload.optimizer=host", "offload.parameters=host"};
const std::vector<std::string> kAdafactor = {"optimizer.name=adafactor"};
const std::vector<std::string> kAdafactorOnDisk = {"optimizer.name=adafactor", "offload.optimizer=disk",
                                                   "offload.directory=/tmp"};

class ResumeAlike : public CheckpointTest, public testing::WithParamInterface<Plan> {};
INSTANTIATE_TEST_SUITE_P(
    Strategies, ResumeAlike,
    testing::Values(Plan{}, Plan{.precision = "bf16-mixed"}, Plan{.ranks = 2, .stage = 0},
                    Plan{.ranks = 2, .stage = 1}, Plan{.ranks = 2, .stage = 2, .accumulation = 2},
                    Plan{.ranks = 4, .stage = 3}, Plan{.ranks = 2, .stage = 3, .precision = "bf16-mixed"},
                    Plan{.more = kOnHost}, Plan{.more = kOnDisk},
                    Plan{.ranks = 2, .stage = 2, .precision = "bf16-mixed", .more = kOnDisk},
                    Plan{.ranks = 2, .stage = 3, .more = kAllOnHost}, Plan{.more = kAdafactor},
                    Plan{.ranks = 2, .stage = 0, .more = kAdafactor},
                    Plan{.ranks = 4, .stage = 3, .precision = "bf16-mixed", .more = kAdafactor},
                    Plan{.ranks = 2, .stage = 1, .more = kAdafactorOnDisk}));

TEST_P(ResumeAlike, GoesOnWithTheSameBits) {
  Plan plan = GetParam();
  const std::vector<double> whole = losses_of(plan);
  ASSERT_EQ(whole.size(), kSteps);
  EXPECT_NE(whole[kBreak], whole[0]);
  forget();
  plan.steps = kBreak;
  EXPECT_THAT(losses_of(plan), ElementsAre(whole[0], whole[1], whole[2]));
  plan.steps = kSteps;
  EXPECT_EQ(losses_of(plan), second_half(whole));
}

struct Change {
  Plan before, after;
};
class ResumeChanged : public CheckpointTest, public testing::WithParamInterface<Change> {};
INSTANTIATE_TEST_SUITE_P(
    Strategies, ResumeChanged,
    testing::Values(
        Change{{.ranks = 1}, {.ranks = 4, .stage = 3}}, Change{{.ranks = 4, .stage = 3}, {.ranks = 1}},
        Change{{.ranks = 4, .stage = 3}, {.ranks = 2, .stage = 2}},
        Change{{.ranks = 2, .stage = 0}, {.ranks = 4, .stage = 1}},
        Change{{.ranks = 4, .stage = 0}, {.ranks = 1, .accumulation = 4}},
        Change{{.ranks = 1, .more = kOnDisk}, {.ranks = 1}},
        Change{{.ranks = 1}, {.ranks = 1, .more = kOnDisk}},
        Change{{.ranks = 1, .more = kAdafactor}, {.ranks = 4, .stage = 3, .more = kAdafactor}},
        Change{{.ranks = 4, .stage = 3, .more = kAdafactor}, {.ranks = 1, .more = kAdafactorOnDisk}},
        Change{{.ranks = 2, .stage = 0, .more = kAdafactor}, {.ranks = 4, .stage = 2, .more = kAdafactor}},
        Change{{.ranks = 2, .stage = 1, .more = kOnDisk}, {.ranks = 4, .stage = 3, .more = kAllOnHost}},
        Change{{.ranks = 2, .stage = 3, .precision = "bf16-mixed"},
               {.ranks = 1, .accumulation = 2, .precision = "bf16-mixed"}}));

// fp32: sums of other micro-batches are rounded in another order. bf16-mixed: micro-batches are the same
// here, and summed in the same order.
TEST_P(ResumeChanged, HasTheSameLosses) {
  Change change = GetParam();
  const std::vector<double> whole = losses_of(change.before);
  ASSERT_EQ(whole.size(), kSteps);
  forget();
  change.before.steps = kBreak;
  losses_of(change.before);
  const std::vector<double> resumed = losses_of(change.after);
  ASSERT_EQ(resumed.size(), kSteps - kBreak);
  for (size_t i = 0; i < resumed.size(); ++i) EXPECT_NEAR(resumed[i] / whole[kBreak + i], 1, 1e-6);
}

TEST_F(CheckpointTest, KeepsTheNewestTwo) {
  losses_of({.steps = 5, .more = {"train.checkpoint_every=1"}});
  EXPECT_THAT(saved(), ElementsAre("step-000004", "step-000005"));
}

TEST_F(CheckpointTest, IsAlsoWrittenAtTheEnd) {
  losses_of({.steps = 5, .more = {"train.checkpoint_every=3"}});
  EXPECT_THAT(saved(), ElementsAre("step-000003", "step-000005"));
}

// As a kill during a save leaves it: nothing is read of it, and the next save removes it.
TEST_F(CheckpointTest, WhatIsPartialIsPassedOver) {
  const std::vector<double> whole = losses_of({});
  forget();
  losses_of({.steps = kBreak});
  fs::copy(folder_ / "runs/step-000003", folder_ / "runs/step-000005.partial");
  fs::remove(folder_ / "runs/step-000005.partial/state.json");
  EXPECT_EQ(losses_of({}), second_half(whole));
  EXPECT_THAT(saved(), ElementsAre("step-000003", "step-000006"));
}

TEST_F(CheckpointTest, AFullDiskLeavesTheLastOne) {
  const std::vector<double> whole = losses_of({});
  forget();
  losses_of({.steps = kBreak});
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto on_signal = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 100000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = error_of({});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, on_signal);
  EXPECT_THAT(error, HasSubstr("step-000006.partial/model.safetensors: can't be written: File too large"));
  EXPECT_THAT(saved(), ElementsAre("step-000003"));
  EXPECT_EQ(losses_of({}), second_half(whole));
}

TEST_F(CheckpointTest, WeightsOfACheckpointBeginARun) {
  losses_of({.steps = kBreak});
  const auto architecture = read_hf_config(folder_ / "runs/step-000003");
  ASSERT_TRUE(architecture) << architecture.error().to_text();
  const auto weights = ModelWeights::open(folder_ / "runs/step-000003");
  ASSERT_TRUE(weights) << weights.error().to_text();
  EXPECT_EQ(weights->tensors().size(), architecture->parameters.size());
  EXPECT_TRUE(stored_weights(*weights, *architecture));
}

TEST_F(CheckpointTest, OfAnotherRunIsRefused) {
  losses_of({.steps = kBreak});
  EXPECT_THAT(error_of({.more = {"train.seed=8"}}), HasSubstr("state.json, key \"seed\": is 7"));
  EXPECT_THAT(error_of({.more = {"batch.sequence=12"}}), HasSubstr("key \"data_fingerprint\""));
  EXPECT_THAT(error_of({.more = {"train.resume=false"}}),
              HasSubstr("holds step-000003 already, and train.resume is false"));
  put(folder_ / "text.txt", text_of(5000));
  EXPECT_THAT(error_of({}), HasSubstr("key \"data_fingerprint\": is "));
  std::string config = kConfig;
  config.replace(config.find("\"num_key_value_heads\": 2"), 24, "\"num_key_value_heads\": 4");
  put(folder_ / "config.json", config);
  EXPECT_THAT(error_of({}), HasSubstr("step-000003/config.json, key \"num_key_value_heads\": is 2: the "
                                      "checkpoint is of another model"));
}

TEST_F(CheckpointTest, AnotherGlobalBatchGoesOnWhereTheDataWere) {
  losses_of({.steps = kBreak});
  const Plan half{.steps = 4, .more = {"batch.global_batch=4", "batch.micro_batch=4"}};
  EXPECT_EQ(losses_of(half).size(), 1U);
  const auto state = read_checkpoint_state(folder_ / "runs/step-000004");
  ASSERT_TRUE(state) << state.error().to_text();
  EXPECT_EQ(state->samples, kBreak * kRows + 4);
}

TEST_F(CheckpointTest, PiecesAreEveryElementOnce) {
  const auto a = read_hf_config(folder_ / "config.json");
  ASSERT_TRUE(a) << a.error().to_text();
  for (const int64_t ranks : {1, 2, 3, 7})
    for (const bool is_sharded : {false, true}) {
      std::vector<int64_t> written(a->parameters.size());
      for (const native::Unit& unit : native::make_units(*a, is_sharded ? ranks : 1))
        for (int64_t r = 0; r < ranks; ++r)
          for (const Piece& piece :
               pieces_written({unit.tensors, unit.elements},
                              is_sharded ? unit.elements / ranks : unit.elements, r, ranks)) {
            EXPECT_EQ(piece.begin, written[piece.parameter]);
            written[piece.parameter] += piece.elements;
          }
      for (size_t p = 0; p < written.size(); ++p) EXPECT_EQ(written[p], a->parameters[p].elements());
    }
}

}  // namespace
}  // namespace plimsoll
