// For tests of checkpoints: a folder with a small model and data, and runs in it that save and go on.
#pragma once

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/test_folder.h"
#include "importers/hf_config/hf_config.h"
#include "runtime/communication/in_process.h"
#include "runtime/training_run.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"
#include "train/checkpoints.h"
#include "train/model_config.h"
#include "train/stored_weights.h"

namespace plimsoll {

namespace fs = std::filesystem;

inline constexpr int64_t kRows = 8;  // of the global batch

inline constexpr const char* kConfig = R"({"model_type": "llama", "vocab_size": 260, "hidden_size": 48,
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
  // Of what is read before data and weights are.
  std::string opening_error() const {
    const auto a = read_hf_config(folder_ / "config.json");
    Job job;
    job.framework = Framework::kNative;
    for (const std::string& setting : settings_of({})) EXPECT_TRUE(apply_setting(job, setting));
    const auto resolved = resolve(job, *a, {.name = "cpu"});
    const auto text = model_config_text(folder_ / "config.json", {}, *a);
    const auto checkpoints = Checkpoints::open(
        {.job = *resolved, .architecture = *a, .model_config = *text, .job_text = to_toml(job)});
    return checkpoints ? "none" : checkpoints.error().to_text();
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

// Runs of kSteps steps that have a break after kBreak.
inline constexpr int64_t kBreak = 3, kSteps = 6;

}  // namespace plimsoll
