// A snapshot of a simulated run, written and read again, shows the steps that its program has, and nothing
// that outlives its use: the programs free what they no longer need. Every preset, in jobs whose steps
// differ.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/data_dir.h"
#include "cli/job_options.h"
#include "estimate/recording.h"
#include "importers/hf_config/presets.h"
#include "importers/torch_snapshot/torch_snapshot.h"
#include "replay/analysis.h"
#include "trace/torch_snapshot_writer.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

struct Steps {
  std::string name;
  std::vector<std::string> settings;
};

void PrintTo(const Steps& steps, std::ostream* out) { *out << steps.name; }

Result<EstimateRun> run_of(const std::string& model, const Steps& steps) {
  JobOptions options;
  options.model = model;
  options.settings = {"hardware.gpu=h200", "model.layers=2", "batch.sequence=64"};
  options.settings.insert(options.settings.end(), steps.settings.begin(), steps.settings.end());
  PLIMSOLL_TRY(loaded, load_job(options));
  return run_estimate({.architecture = loaded.architecture,
                       .job = loaded.job,
                       .gpu = loaded.gpu,
                       .node = loaded.cluster.node});
}

int64_t phases_named(const EstimateRun& run, std::string_view prefix) {
  return std::ranges::count_if(run.timeline.phases,
                               [&](const PhaseMemory& phase) { return phase.phase.starts_with(prefix); });
}

class OwnSnapshots : public testing::TestWithParam<Steps> {
 protected:
  OwnSnapshots() : path_(testing::TempDir() + "own_snapshots_law_" + GetParam().name + ".pickle") {}
  ~OwnSnapshots() override { fs::remove(path_); }

  // What is written can hold less than what was recorded: times are whole microseconds.
  SnapshotAnalysis written_and_read(const EstimateRun& run) const {
    std::ofstream file(path_, std::ios::binary);
    write_torch_snapshot(record_snapshot(run), file);
    file.close();
    Result<TorchSnapshot> snapshot = read_torch_snapshot(path_);
    EXPECT_TRUE(snapshot) << snapshot.error().to_text();
    Result<SnapshotAnalysis> analysis = analyze(snapshot->devices.at(0));
    EXPECT_TRUE(analysis) << analysis.error().to_text();
    return std::move(*analysis);
  }

  const std::string path_;
};

TEST_P(OwnSnapshots, ShowTheProgramsSteps) {
  for (const ModelPreset& preset : list_presets(data_dir())) {
    SCOPED_TRACE(preset.name);
    const Result<EstimateRun> run = run_of(preset.name, GetParam());
    ASSERT_TRUE(run) << run.error().to_text();
    const SnapshotAnalysis found = written_and_read(*run);
    EXPECT_EQ(found.steps.told_by, PhasesToldBy::kSimulation);
    EXPECT_EQ(found.steps.forwards, phases_named(*run, "fwd"));
    EXPECT_EQ(found.steps.backwards, phases_named(*run, "bwd"));
    EXPECT_EQ(found.steps.optimizer_steps, phases_named(*run, "step"));
    EXPECT_EQ(found.steps.optimizer_steps, 2);
    EXPECT_EQ(found.held.at_peak, Bytes{});
    EXPECT_TRUE(found.held.lines.empty()) << found.held.lines[0].most.value;
  }
}

const std::vector<Steps> kSteps = {
    {"plain", {}},
    {"accumulated", {"batch.accumulation=3"}},
    {"recomputed", {"recompute.mode=full"}},
    {"sharded", {"hardware.gpus=8", "parallel.engine=fsdp2"}},
    {"sharded_accumulated_recomputed",
     {"hardware.gpus=8", "parallel.engine=fsdp2", "batch.accumulation=2", "recompute.mode=full"}},
};

INSTANTIATE_TEST_SUITE_P(Jobs, OwnSnapshots, testing::ValuesIn(kSteps),
                         [](const testing::TestParamInfo<Steps>& info) { return info.param.name; });

struct Recorded {
  std::string file;
  std::optional<int64_t> forwards, backwards, optimizer_steps;
};

TEST(RecordedSnapshots, ShowWhatTheirScriptsDid) {
  const fs::path folder = PLIMSOLL_SOURCE_DIR "/../shared/inputs/snapshots";
  if (!fs::exists(folder)) GTEST_SKIP() << "no " << folder;
  const std::optional<int64_t> unknown;
  const std::vector<Recorded> all = {
      {"linear_no_grad.pickle", 1, 0, 0},
      {"attention_only_quadratic.pickle", 1, 1, 0},
      {"cs336_small_ctx128_forward_bf16.pickle.gz", 1, 0, 0},
      {"cs336_2.7b_ctx128_forward.pickle.gz", 1, 0, 0},
      {"cs336_2.7b_ctx128_fullstep.pickle.gz", 1, 1, 1},
      {"cs336_medium_ctx128_train.pickle.gz", 1, 1, 1},
      {"cs336_medium_ctx1024_train.pickle.gz", 1, 1, 1},
      {"notebook_train_fragmented.pickle.gz", 1, 1, 0},  // ends within the backward
      {"flexgen_opt1.3b.pickle.gz", unknown, unknown, unknown}};
  for (const Recorded& r : all) {
    const Result<TorchSnapshot> snapshot = read_torch_snapshot(folder / r.file);
    ASSERT_TRUE(snapshot) << snapshot.error().to_text();
    const AllocationTrace& trace = snapshot->devices.at(0);
    const StepPhases found = find_step_phases(trace, meanings_of(trace.stacks));
    EXPECT_EQ(found.forwards, r.forwards) << r.file;
    EXPECT_EQ(found.backwards, r.backwards) << r.file;
    EXPECT_EQ(found.optimizer_steps, r.optimizer_steps) << r.file;
  }
}

}  // namespace
}  // namespace plimsoll
