#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/holders.h"
#include "report/improvements_text.h"
#include "report/job_text.h"
#include "report/ladder.h"
#include "report/memory_curve.h"

namespace plimsoll {
namespace {

// A program that allocates `sizes` in one forward phase and frees them in the other order in the backward.
EstimateRun run_of(const std::vector<int64_t>& sizes) {
  EstimateRun run;
  run.program.ops.push_back({.kind = OpKind::kMm});
  run.timeline.phases = {{.phase = "fwd1"}, {.phase = "bwd1"}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    run.program.storages.push_back(
        {.bytes = Bytes{sizes[i]}, .owner = run.program.module("layers." + std::to_string(i) + ".mlp")});
    run.timeline.events.push_back({.is_alloc = true, .storage = StorageId{static_cast<uint32_t>(i)}});
  }
  for (size_t i = sizes.size(); i-- > 0;)
    run.timeline.events.push_back(
        {.is_alloc = false, .storage = StorageId{static_cast<uint32_t>(i)}, .phase = 1});
  run.shown = shown_categories(run.program, run.timeline);
  return run;
}

TEST(Holders, FoldTheFirstNumberOfAPath) {
  EXPECT_EQ(fold_path("model.layers.12.mlp.experts.3").pattern, "model.layers.{}.mlp.experts.3");
  EXPECT_EQ(fold_path("model.layers.12.mlp").number, 12);
  EXPECT_EQ(fold_path("h.0").pattern, "h.{}");
  EXPECT_EQ(fold_path("lm_head.weight").pattern, "lm_head.weight");
  EXPECT_EQ(fold_path("").pattern, "");
  EXPECT_EQ(fold_path("q8.conv2d").number, std::nullopt);
}

TEST(Holders, TellNumbersInRuns) {
  EXPECT_EQ(numbers_text({0, 1, 2, 3}), "0..3");
  EXPECT_EQ(numbers_text({5}), "5");
  EXPECT_EQ(numbers_text({0, 2, 4}), "0,2,4");
  EXPECT_EQ(numbers_text({0, 1, 5, 6}), "0..1,5..6");
  EXPECT_EQ(numbers_text({0, 2, 4, 6, 8}), "5 of 0..8");
}

TEST(Holders, GroupWhatDiffersInItsLayerOnly) {
  const EstimateRun run = run_of({1000, 1000, 4096, 1000});
  const std::vector<HolderGroup> groups = holders_at(run, 3);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].module, "layers.2.mlp");
  EXPECT_EQ(groups[0].total().value, 4096);
  EXPECT_EQ(groups[1].module, "layers.{0..1,3}.mlp");
  EXPECT_EQ(groups[1].count, 3);
  EXPECT_EQ(groups[1].each.value, 1024);
  EXPECT_EQ(groups[1].born, "fwd1");
  EXPECT_EQ(groups[1].dies, "bwd1");
  EXPECT_EQ(groups[1].category, Category::kActivation);
}

// Two kinds of op that PyTorch calls by one name would be two lines that look the same.
TEST(Holders, OpsOfOneNameAreOneLine) {
  ASSERT_EQ(aten_name_of(OpKind::kMul), aten_name_of(OpKind::kMulScalar));
  EstimateRun run = run_of({1000, 1000});
  run.program.ops = {{.kind = OpKind::kMul}, {.kind = OpKind::kMulScalar}};
  run.timeline.events[0].op = OpId{0};
  run.timeline.events[1].op = OpId{1};
  const std::vector<HolderGroup> groups = holders_at(run, 1);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].count, 2);
}

TEST(Holders, ThoseThatAreNotFreedNeverDie) {
  EstimateRun run = run_of({512});
  run.timeline.events.pop_back();
  EXPECT_EQ(holders_at(run, 0)[0].dies, "never");
}

TEST(MemoryCurve, RisesAndFalls) {
  constexpr int64_t kHalf = int64_t{1} << 29;
  const EstimateRun run = run_of({kHalf, kHalf});
  EXPECT_EQ(memory_curve(run, 0, 1, {.columns = 12, .rows = 2}),
            "   1.00 GiB |    ####\n"
            "   0.50 GiB |  ########\n"
            "             |fwd1 |bwd1\n");
}

TEST(JobHeadline, NamesEveryKindOfParallelism) {
  Estimate e;
  e.job.mesh = {.world = 8, .tensor = 8};
  EXPECT_THAT(job_headline(e), ::testing::HasSubstr("pytorch, tensor parallelism over 8 ranks;"));
  e.job.engine = DataParallelEngine::kFsdp2;
  e.job.mesh = {.world = 8, .data = 4, .shard = 4, .tensor = 2};
  EXPECT_THAT(job_headline(e), ::testing::HasSubstr("FSDP2 over 4 ranks x tensor parallelism over 2 ranks;"));
  e.job = {};
  EXPECT_THAT(job_headline(e), ::testing::HasSubstr("pytorch, one rank;"));
}

Estimate at_risk() {
  Estimate e;
  e.gpu.usable_memory = kGiB * 80;
  e.phases = {{.kind = PhaseKind::kSteadyStep}};
  e.phases[0].use.device = kGiB * 79;
  e.reserved_without_limit = kGiB * 81;
  e.host_peak = kGiB * 2;
  e.verdict.gpu = Fit::kAtRisk;
  return e;
}

TEST(ImprovementsText, SaysTheVerdictOfEachChangeForGpuAndHost) {
  const Improvements found{.changes = {{.settings = {"a=1"},
                                        .price = "little",
                                        .wanted = kGiB * 70,
                                        .saved = kGiB * 11,
                                        .host_peak = kGiB * 2},
                                       {.settings = {"b=1"},
                                        .price = "much",
                                        .wanted = kGiB * 79,
                                        .saved = kGiB * 2,
                                        .host_peak = kGiB * 300,
                                        .gpu = Fit::kAtRisk,
                                        .host = Fit::kOutOfMemory}}};
  EXPECT_EQ(
      improvements_text(at_risk(), found),
      "\nWhat would help, each change estimated whole: GiB on each GPU, and on the host for each rank, as "
      "if it had no limit\n"
      "              saves   peak    host  then                                                   costs\n"
      "  (as it is)         81.00    2.00  GPU at risk, by freeing its cache\n"
      "  a=1         11.00  70.00    2.00  fits                                                   little\n"
      "  b=1          2.00  79.00  300.00  host out of memory, GPU at risk, by freeing its cache  much\n");
  EXPECT_EQ(improvements_text(at_risk(), {.changes = {found.changes[0]}}),
            "\nWhat would help, each change estimated whole: GiB on each GPU, as if it had no limit\n"
            "              saves   peak  then                           costs\n"
            "  (as it is)         81.00  at risk, by freeing its cache\n"
            "  a=1         11.00  70.00  fits                           little\n");
}

TEST(ImprovementsText, NamesWhoseMemoryIsShort) {
  const auto words = [](Fit gpu, Fit host) {
    const std::string text = improvements_text(
        at_risk(), {.changes = {{.settings = {"a=1"}, .price = "P", .gpu = gpu, .host = host}}});
    const size_t price = text.rfind("  P\n"), begin = text.rfind("0.00  ", price) + 6;
    return text.substr(begin, text.find_last_not_of(' ', price) + 1 - begin);
  };
  EXPECT_EQ(words(Fit::kFits, Fit::kOutOfMemory), "host out of memory");
  EXPECT_EQ(words(Fit::kOutOfMemory, Fit::kFits), "out of memory");  // no row's host is short
  EXPECT_EQ(words(Fit::kOutOfMemory, Fit::kOutOfMemory), "GPU and host out of memory");
  EXPECT_EQ(words(Fit::kOutOfMemory, Fit::kAtRisk), "GPU out of memory, host at risk");
}

TEST(VerdictLine, NamesTheWorseOfGpuAndHost) {
  Estimate e = at_risk();
  e.capacity = kGiB * 80;
  e.node.host_memory = kGiB * 128;
  e.job.mesh.gpus_per_node = 2;
  e.host_peak = kGiB * 130;
  EXPECT_EQ(verdict_line(e),
            "AT RISK on the GPU: peak 79.00 GiB of 80.00 GiB on each GPU, 1.00 GiB to spare\n");
  e.verdict.host = Fit::kOutOfMemory;
  EXPECT_EQ(verdict_line(e),
            "OUT OF MEMORY on the host: 2 ranks take 2 x 130.00 GiB of the node's 128.00 GiB\n"
            "  peak 79.00 GiB of 80.00 GiB on each GPU, 1.00 GiB to spare\n");
  e.verdict.gpu = Fit::kOutOfMemory;
  EXPECT_EQ(verdict_line(e),
            "OUT OF MEMORY on GPU and host: needs 79.00 GiB, each GPU has 80.00 GiB\n"
            "  2 ranks take 2 x 130.00 GiB of the node's 128.00 GiB\n");
  e.verdict = {};
  EXPECT_EQ(verdict_line(e), "FITS: peak 79.00 GiB of 80.00 GiB on each GPU, 1.00 GiB to spare\n");
}

TEST(CureText, AHostThatIsShortGetsAdviceToo) {
  Estimate e = at_risk();
  e.verdict = {.host = Fit::kOutOfMemory};
  EXPECT_EQ(cure_text(e, {}),
            "  no change of the checklist cures it, alone or with others, more GPUs included\n");
  const Improvements found{
      .cure =
          Change{.settings = {"a=1"}, .price = "little", .device_peak = kGiB * 70, .host_peak = kGiB * 9}};
  EXPECT_EQ(
      cure_text(e, found),
      "  cheapest way to fit: a=1; costs little; then fits, peak 70.00 GiB, host 9.00 GiB for each rank\n");
}

TEST(CureText, SaysWhenNotAllWasTried) {
  const Estimate e = at_risk();
  EXPECT_EQ(cure_text(e, {.untried = {"a=1"}}),
            "  no change was found that makes it fit, of those tried; --all-changes tries more\n");
  EXPECT_EQ(cure_text(e, {.is_search_cut = true}), cure_text(e, {.untried = {"a=1"}}));
}

TEST(ImprovementsText, ACureThatIsAtRiskIsNotCalledOneThatFits) {
  Estimate e = at_risk();
  e.verdict.gpu = Fit::kOutOfMemory;
  Improvements found{.cure = Change{.settings = {"a=1"}, .price = "little", .device_peak = kGiB * 70}};
  EXPECT_EQ(cure_text(e, found), "  cheapest way to fit: a=1; costs little; then fits, peak 70.00 GiB\n");
  found.cure->gpu = Fit::kAtRisk;
  EXPECT_EQ(cure_text(e, found),
            "  cheapest way to run at all: a=1; costs little; then at risk, peak 70.00 GiB\n");
}

TEST(Ladder, EveryCategoryButWorkspacesIsInOneRung) {
  std::array<int, kCategoryCount> count{};
  for (const Rung& rung : live_rungs())
    for (Category c : rung.categories) ++count[static_cast<size_t>(c)];
  for (int c = 0; c < kCategoryCount; ++c)
    EXPECT_EQ(count[static_cast<size_t>(c)], static_cast<Category>(c) == Category::kWorkspace ? 0 : 1)
        << name_of(static_cast<Category>(c));
}

}  // namespace
}  // namespace plimsoll
