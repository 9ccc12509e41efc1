// Some steps of a tiny model as one rank of a job, for tests.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>

#include <optional>
#include <string>
#include <vector>

#include "model/build_architecture.h"
#include "runtime/training_run.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"

namespace plimsoll::runtime {

inline constexpr int64_t kTinyVocabulary = 512;

inline Result<Architecture> tiny_llama() {
  const auto member = [](std::string key, int64_t value) {
    return ConfigMember{.key = std::move(key), .value = {value}};
  };
  const ConfigValue::Object config{{.key = "model_type", .value = {std::string("llama")}},
                                   member("vocab_size", kTinyVocabulary),
                                   member("hidden_size", 64),
                                   member("intermediate_size", 160),
                                   member("num_hidden_layers", 2),
                                   member("num_attention_heads", 4),
                                   member("num_key_value_heads", 2),
                                   member("max_position_embeddings", 256)};
  return build_architecture(config, {.file = "tiny"});
}

struct TinyRun {
  std::vector<StepReport> steps;
  std::vector<double> evaluations;  // before each step, on its batch
  std::vector<PhaseMemoryReport> memory;
  std::optional<TrainingRun::Recording> recording;  // where it was asked for
};

struct TinyOptions {
  bool evaluates = false;  // each step's batch before it
  bool is_recorded = false;
};

// The global batch of a step is the same whatever the ranks: its rows go to the micro-batches of all ranks in
// turn.
inline Result<TinyRun> play_tiny(Communicator& communicator, const std::vector<std::string>& settings,
                                 int steps, const TinyOptions& options = {}) {
  PLIMSOLL_TRY(architecture, tiny_llama());
  Job job;
  job.framework = Framework::kNative;
  job.model.name = "tiny";
  job.hardware.gpu = "cpu";
  for (const std::string& setting : settings) PLIMSOLL_CHECK(apply_setting(job, setting));
  PLIMSOLL_TRY(resolved, resolve(job, architecture, {.name = "cpu"}));
  PLIMSOLL_TRY(run, TrainingRun::make({.architecture = architecture,
                                       .job = resolved,
                                       .weights = fresh_weights(architecture, 1),
                                       .communicator = &communicator}));
  if (options.is_recorded) run->start_recording();
  PLIMSOLL_CHECK(run->load());
  const BatchSource batches = [&](int64_t step, int64_t m, at::Tensor& ids,
                                  at::Tensor& labels) -> Result<void> {
    const int64_t n = ids.size(0), sequence = ids.size(1);
    const int64_t rows = n * resolved.batch.accumulation * communicator.size();
    const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step % 2));
    const at::Tensor all =
        at::randint(0, kTinyVocabulary, {rows, sequence + 1}, generator, at::TensorOptions(at::kLong))
            .narrow(0, (m * communicator.size() + communicator.rank()) * n, n);
    ids.copy_(all.narrow(1, 0, sequence));
    labels.copy_(all.narrow(1, 1, sequence));
    return {};
  };
  TinyRun result;
  for (int step = 0; step < steps; ++step) {
    if (options.evaluates) {
      const BatchSource same = [&](int64_t, int64_t m, at::Tensor& ids, at::Tensor& labels) {
        return batches(step, m, ids, labels);
      };
      PLIMSOLL_TRY(loss, run->evaluate(same, 1));
      result.evaluations.push_back(loss);
    }
    PLIMSOLL_TRY(report, run->step(batches));
    result.steps.push_back(report);
  }
  result.memory = run->memory();
  if (options.is_recorded) result.recording = run->take_recording();
  return result;
}

}  // namespace plimsoll::runtime
