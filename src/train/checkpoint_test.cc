// Checkpoints: a resumed run goes on as if it had not stopped, on any number of ranks and in any ZeRO stage;
// what isn't whole or isn't the job's is refused with the file's name; a save that fails leaves the last one.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <thread>

#include "base/test_folder.h"
#include "importers/hf_config/hf_config.h"
#include "runtime/communication/in_process.h"
#include "runtime/training_run.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"
#include "train/checkpoint_pieces.h"
#include "train/checkpoints.h"
#include "train/model_config.h"
#include "train/stored_weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kRows = 8;  // of the global batch

constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 260, "hidden_size": 48,
  "intermediate_size": 104, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "max_position_embeddings": 64, "tie_word_embeddings": false})";

// A strategy, and until which step the run goes.
struct Plan {
  int64_t ranks = 1, stage = 0, accumulation = 1;
  int64_t steps = 6;
  std::string precision = "fp32";
  std::vector<std::string> more;
};

// What tests change of the folder's files.
class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    put(folder_ / "config.json", kConfig);
    put(folder_ / "text.txt", text_of(4000));
  }
  static std::string text_of(size_t bytes) {
    std::string text;
    for (size_t i = 0; text.size() < bytes; ++i) text += fmt::format("line {} of {}\n", i, i * i % 97);
    return text;
  }

  std::vector<std::string> settings_of(const Plan& plan) const {
    std::vector<std::string> all{"parallel.engine=zero",
                                 "model.name=" + (folder_ / "config.json").string(),
                                 "precision=" + plan.precision,
                                 fmt::format("zero.stage={}", plan.stage),
                                 fmt::format("hardware.gpus={}", plan.ranks),
                                 "batch.sequence=16",
                                 fmt::format("batch.micro_batch={}", kRows / plan.ranks / plan.accumulation),
                                 fmt::format("batch.global_batch={}", kRows),
                                 "train.schedule=constant",
                                 "train.learning_rate=0.003",
                                 "train.seed=7",
                                 "data.path=" + (folder_ / "text.txt").string(),
                                 "train.checkpoints=" + (folder_ / "runs").string(),
                                 fmt::format("train.steps={}", plan.steps)};
    all.insert(all.end(), plan.more.begin(), plan.more.end());
    return all;
  }

  // The losses of the steps that one rank did.
  Result<std::vector<double>> play_rank(const Plan& plan, runtime::Communicator* communicator) const {
    const fs::path config = folder_ / "config.json";
    PLIMSOLL_TRY(a, read_hf_config(config));
    Job job;
    job.framework = Framework::kNative;
    for (const std::string& setting : settings_of(plan)) PLIMSOLL_CHECK(apply_setting(job, setting));
    PLIMSOLL_TRY(resolved, resolve(job, a, {.name = "cpu"}));
    PLIMSOLL_TRY(text, model_config_text(config, {}, a));
    PLIMSOLL_TRY(checkpoints, Checkpoints::open({.job = resolved,
                                                 .architecture = a,
                                                 .model_config = text,
                                                 .job_text = to_toml(job),
                                                 .communicator = communicator}));
    PLIMSOLL_TRY(batches, Batches::open(resolved, a.vocab, communicator ? communicator->rank() : 0));
    std::optional<ModelWeights> stored;
    runtime::WeightSource weights = runtime::fresh_weights(a, 7);
    if (checkpoints.resumes()) {
      PLIMSOLL_TRY(opened, ModelWeights::open(checkpoints.weights()));
      stored = std::move(opened);
      PLIMSOLL_TRY(source, stored_weights(*stored, a));
      weights = std::move(source);
    }
    PLIMSOLL_TRY(run, runtime::TrainingRun::make({.architecture = a,
                                                  .job = resolved,
                                                  .weights = std::move(weights),
                                                  .communicator = communicator}));
    PLIMSOLL_CHECK(run->load());
    PLIMSOLL_CHECK(checkpoints.restore(*run, batches));
    std::vector<double> losses;
    while (run->steps_done() < plan.steps) {
      PLIMSOLL_TRY(step, run->step([&](int64_t s, int64_t m, at::Tensor& ids, at::Tensor& labels) {
        return batches.fill(s, m, ids, labels);
      }));
      losses.push_back(step.loss);
      PLIMSOLL_CHECK(checkpoints.after_step(*run, batches, step.loss));
    }
    if (plan.ranks == 1) {  // one allocator counts all threads of the process
      for (const runtime::PhaseMemoryReport& phase : run->memory())
        EXPECT_EQ(phase.times_different, 0) << phase.phase;
    }
    return losses;
  }

  Result<std::vector<double>> play(const Plan& plan) const {
    if (plan.ranks == 1) return play_rank(plan, nullptr);
    const runtime::InProcessGroup group(plan.ranks, std::chrono::seconds(60));
    std::vector<Result<std::vector<double>>> results(static_cast<size_t>(plan.ranks));
    std::vector<std::thread> threads;
    for (int64_t r = 0; r < plan.ranks; ++r)
      threads.emplace_back([&, r] {
        at::set_num_threads(1);
        const std::unique_ptr<runtime::Communicator> communicator = group.join(r);
        results[static_cast<size_t>(r)] = play_rank(plan, communicator.get());
      });
    for (std::thread& thread : threads) thread.join();
    return results[0];
  }
  std::vector<double> losses_of(const Plan& plan) const {
    const auto losses = play(plan);
    EXPECT_TRUE(losses) << losses.error().to_text();
    return losses.value_or(std::vector<double>());
  }
  std::string error_of(const Plan& plan) const {
    const auto losses = play(plan);
    return losses ? "none" : losses.error().to_text();
  }
  void forget() const { fs::remove_all(folder_ / "runs"); }
  std::vector<std::string> saved() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "runs"))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  const fs::path folder_ = test_folder();
};

constexpr int64_t kBreak = 3, kSteps = 6;

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

// The loss of a step is of the weights before it.
TEST_F(CheckpointTest, WeightsThatAreNoNumbersAreNotSaved) {
  for (const int64_t ranks : {1, 2}) {
    forget();
    const std::string error = error_of(
        {.ranks = ranks, .stage = ranks == 1 ? 0 : 3, .steps = 1, .more = {"train.learning_rate=1e38"}});
    EXPECT_THAT(error, HasSubstr("step-000001: isn't saved: after step 1 weights of "));
    EXPECT_TRUE(saved().empty());
  }
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

TEST_F(CheckpointTest, WhatIsNotWholeIsRefusedByFile) {
  losses_of({.steps = kBreak});
  const fs::path checkpoint = folder_ / "runs/step-000003";
  const auto broken = [&](const std::string& file, const auto& damage) {
    const std::string bytes = bytes_of_file(checkpoint / file);
    damage(bytes);
    const std::string error = error_of({});
    put(checkpoint / file, bytes);
    EXPECT_THAT(error, HasSubstr(file));
    return error;
  };
  for (const std::string file :
       {"model.safetensors", "optimizer-00001-of-00001.safetensors", "state.json", "config.json"}) {
    broken(file, [&](const std::string&) { fs::remove(checkpoint / file); });
    broken(file,
           [&](const std::string& bytes) { put(checkpoint / file, bytes.substr(0, bytes.size() / 2)); });
  }
  const auto flip = [&](const std::string& file) {
    return broken(file, [&](std::string bytes) {
      bytes[bytes.size() - 5] ^= 1;
      put(checkpoint / file, bytes);
    });
  };
  EXPECT_THAT(flip("model.safetensors"), HasSubstr("isn't what was saved"));
  EXPECT_THAT(flip("optimizer-00001-of-00001.safetensors"), HasSubstr("isn't what was saved"));
  const std::string newer = broken("state.json", [&](std::string text) {
    text.replace(text.find("checkpoint/1"), 12, "checkpoint/2");
    put(checkpoint / "state.json", text);
  });
  EXPECT_THAT(newer, HasSubstr("a newer version of Plimsoll wrote it"));
  EXPECT_EQ(error_of({}), "none");
}

TEST_F(CheckpointTest, EveryRankStopsWhereOneCannotRead) {
  losses_of({.ranks = 2, .stage = 3, .steps = kBreak});
  const fs::path file = folder_ / "runs/step-000003/optimizer-00002-of-00002.safetensors";
  std::string bytes = bytes_of_file(file);
  bytes[bytes.size() - 5] ^= 1;
  put(file, bytes);
  EXPECT_THAT(error_of({.ranks = 2, .stage = 3}), HasSubstr("rank 1: "));  // what rank 0 says
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
