// What `estimate --json` says of the modules at the peak is what the snapshot of the same run shows: written,
// read and compared as a user would.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/job_options.h"
#include "estimate/recording.h"
#include "importers/estimate_json/estimate_json.h"
#include "report/estimate_json.h"
#include "report/memory_profile.h"
#include "report/peak_modules.h"

namespace plimsoll {
namespace {

struct Case {
  std::string name, model;
  std::vector<std::string> settings;
};

void PrintTo(const Case& job, std::ostream* out) { *out << job.name; }

Result<EstimateRun> run_of(const Case& job) {
  JobOptions options;
  options.model = job.model;
  options.settings = {"hardware.gpu=h200", "batch.sequence=512"};
  options.settings.insert(options.settings.end(), job.settings.begin(), job.settings.end());
  PLIMSOLL_TRY(loaded, load_job(options));
  return run_estimate({.architecture = loaded.architecture,
                       .job = loaded.job,
                       .gpu = loaded.gpu,
                       .node = loaded.cluster.node});
}

class EstimatedModules : public testing::TestWithParam<Case> {};

TEST_P(EstimatedModules, AddUpToThePeakOfEachPhase) {
  const Result<EstimateRun> run = run_of(GetParam());
  ASSERT_TRUE(run) << run.error().to_text();
  for (const PhaseEstimate& phase : run->estimate.phases) {
    CategoryBytes categories = phase.use.categories;
    categories[static_cast<size_t>(Category::kWorkspace)] = Bytes{};  // libraries' are of no module
    Bytes sum;
    for (const ModuleMemory& memory : modules_at_peak(*run, phase.use)) {
      sum += memory.bytes;
      categories[static_cast<size_t>(memory.category)] -= memory.bytes;
    }
    EXPECT_EQ(sum, phase.use.live) << name_of(phase.kind);
    EXPECT_EQ(categories, CategoryBytes()) << name_of(phase.kind);
  }
}

TEST_P(EstimatedModules, AreThoseOfTheSnapshot) {
  const Result<EstimateRun> run = run_of(GetParam());
  ASSERT_TRUE(run) << run.error().to_text();
  const Result<EstimatedMemory> printed = read_estimate_json(estimate_json(*run, {}), "plan.json");
  ASSERT_TRUE(printed) << printed.error().to_text();
  const AllocationTrace trace = record_snapshot(*run);
  const Result<SnapshotAnalysis> analysis = analyze(trace);
  ASSERT_TRUE(analysis) << analysis.error().to_text();
  const ModuleComparison modules = compare_modules(profile_of_estimate("plan.json", *printed).modules,
                                                   profile_of("run.pickle", trace, *analysis).modules);
  ASSERT_TRUE(modules.is_known());
  EXPECT_EQ(modules.a.how, "as estimated");
  EXPECT_EQ(modules.b.how, "by simulated stacks");
  EXPECT_GT(modules.rows.size(), 10U);
  int64_t tails = 0;
  for (const ModuleDifference& row : modules.rows) {
    // A block of the allocator keeps a tail of less than 1 MiB; a storage of the estimate has none.
    EXPECT_GE(row.b, row.a) << row.module << " " << row.role;
    EXPECT_GT(row.a.value, 0) << row.module << " " << row.role;
    tails += (row.b - row.a).value;
  }
  EXPECT_LE(tails, analysis->at_peak.size() * kMiB.value);
  EXPECT_LE(tails, run->estimate.peak_phase().use.live.value / 50);
}

const std::vector<Case> kJobs = {
    {"llama", "llama-3.2-1b", {}},
    {"recomputed", "llama-3.2-1b", {"recompute.mode=full"}},
    {"native", "llama-3.2-1b", {"framework=native"}},
    {"sharded", "llama-3.2-1b", {"hardware.gpus=4", "parallel.engine=fsdp2"}},
    {"gpt2", "gpt2", {}},
};

INSTANTIATE_TEST_SUITE_P(Jobs, EstimatedModules, testing::ValuesIn(kJobs),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

}  // namespace
}  // namespace plimsoll
