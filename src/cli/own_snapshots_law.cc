// A snapshot of a simulated run, written and read again, shows the steps that its program has, and nothing
// that outlives its use: the programs free what they no longer need. Every preset, in jobs whose steps differ.
#include <gtest/gtest.h>

#include <algorithm>
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
  ~OwnSnapshots() override { std::remove(path_.c_str()); }

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

}  // namespace
}  // namespace plimsoll
