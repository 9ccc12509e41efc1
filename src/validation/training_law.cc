// Laws of whole training runs, on small models and whatever job the reader accepts for them.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "allocator/caching_heap.h"
#include "program/passes/recompute.h"
#include "program/text.h"
#include "validation/small_jobs.h"

namespace plimsoll {
namespace {

template <typename T>
T any_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

SmallLlama any_model() {
  return {.vocab = any_of<int64_t>({64, 1000, 2048}),
          .hidden = any_of<int64_t>({128, 192, 256}),
          .intermediate = any_of<int64_t>({256, 300, 512}),
          .layers = any_of<int64_t>({1, 2, 3}),
          .heads = any_of<int64_t>({2, 4}),
          .kv_heads = any_of<int64_t>({1, 2}),
          .head_dim = any_of<int64_t>({32, 64})};
}

Recompute any_recompute() {
  Recompute recompute{.kind = any_of({RecomputeKind::kNone, RecomputeKind::kFull, RecomputeKind::kEveryNth,
                                      RecomputeKind::kSelective})};
  if (recompute.kind == RecomputeKind::kEveryNth) recompute.every_nth = 2;
  if (recompute.kind == RecomputeKind::kFull) recompute.is_reentrant = any_of({false, true});
  return recompute;
}

Job any_job() {
  using enum DataParallelEngine;
  Job job;
  job.engine = any_of({kNone, kNone, kDdp, kFsdp2});
  if (job.engine != kNone) job.hardware.gpus = any_of<int64_t>({2, 3, 8});
  job.precision = any_of({Precision::kFloat32, Precision::kBFloat16, Precision::kAutocastBFloat16});
  job.batch.sequence = any_of<int64_t>({64, 256, 320});
  job.batch.micro_batch = any_of<int64_t>({1, 2});
  job.batch.accumulation = any_of<int64_t>({1, 1, 2, 3});
  job.recompute = any_recompute();
  job.attention.implementation = any_of({AttentionImplementation::kEager, AttentionImplementation::kSdpa});
  job.optimizer.kind = any_of({OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kSgdMomentum});
  job.optimizer.implementation =
      any_of({OptimizerImplementation::kForeach, OptimizerImplementation::kForLoop});
  job.loop.zero_grad = any_of({ZeroGrad::kSetToNone, ZeroGrad::kZeros});
  if (any_of({false, true})) job.loop.clip_max_norm = 1.0;
  job.loop.no_sync = job.engine != kNone && job.batch.accumulation != 1 && any_of({false, true});
  job.loop.hold_outputs = any_of({false, false, true});
  return job;
}

// A program of any model and job; jobs that the reader refuses are left out.
Program any_program() {
  const Result<Program> program = build(architecture_of(any_model()), any_job());
  if (!program && program.error().is_internal) RC_FAIL(program.error().to_text());
  RC_PRE(program.has_value());
  return *program;
}

RC_GTEST_PROP(TrainingLaw, TheSameJobGivesTheSameProgram, ()) {
  const Architecture architecture = architecture_of(any_model());
  const Job job = any_job();
  const Result<Program> once = build(architecture, job), again = build(architecture, job);
  RC_PRE(once.has_value());
  RC_ASSERT(to_text(*once) == to_text(*again));
}

RC_GTEST_PROP(TrainingLaw, TheProgramIsItsText, ()) {
  const Program program = any_program();
  const std::string text = to_text(program);
  const Result<Program> again = parse_program(text, "again");
  if (!again) RC_FAIL(again.error().to_text());
  RC_ASSERT(to_text(*again) == text);
  const MemoryTimeline a = play(program), b = play(*again);
  for (size_t i = 0; i < a.phases.size(); ++i) RC_ASSERT(a.phases[i].live_peak == b.phases[i].live_peak);
}

RC_GTEST_PROP(TrainingLaw, NoHeapNeedsLessThanTheLowerBound, ()) {
  const Program program = any_program();
  LowerBoundHeap bound;
  CachingHeap caching;
  const MemoryTimeline low = simulate(program, bound), real = simulate(program, caching);
  for (size_t i = 0; i < low.phases.size(); ++i) {
    RC_ASSERT(real.phases[i].allocated_peak >= low.phases[i].allocated_peak);
    RC_ASSERT(real.phases[i].reserved_peak >= real.phases[i].allocated_peak);
    RC_ASSERT(low.phases[i].allocated_peak >= low.phases[i].live_peak);
    RC_ASSERT(low.phases[i].live_peak >= low.phases[i].live_start);
  }
}

void check_never_less(const Program& smaller, const Program& larger) {
  const MemoryTimeline small = play(smaller), large = play(larger);
  RC_ASSERT(small.phases.size() == large.phases.size());
  for (size_t i = 0; i < small.phases.size(); ++i) {
    if (large.phases[i].live_peak < small.phases[i].live_peak) RC_LOG() << small.phases[i].phase << "\n";
    RC_ASSERT(large.phases[i].live_peak >= small.phases[i].live_peak);
  }
}

// Sequences stay multiples of 64, so that the same attention kernels are taken.
RC_GTEST_PROP(TrainingLaw, MoreOfAnythingNeverNeedsLess, ()) {
  SmallLlama model = any_model();
  Job job = any_job();
  const Result<Program> smaller = build(architecture_of(model), job);
  RC_PRE(smaller.has_value());
  switch (*rc::gen::inRange(0, 3)) {
    case 0:
      job.batch.micro_batch = *job.batch.micro_batch + 1;
      break;
    case 1:
      job.batch.sequence = *job.batch.sequence + 64;
      break;
    default:
      model.layers += job.recompute.kind == RecomputeKind::kEveryNth ? 2 : 1;
      break;
  }
  const Result<Program> larger = build(architecture_of(model), job);
  if (!larger) RC_FAIL(larger.error().to_text());
  check_never_less(*smaller, *larger);
}

Bytes bytes_of_category(const Program& program, Category category) {
  const MemoryTimeline timeline = play(program);
  return peak_of(program, timeline, "zero1", [&](const Storage& s) { return s.category == category; });
}

// A rank's shard is the largest: all of them hold at least the whole, and just that when all dims divide.
RC_GTEST_PROP(TrainingLaw, ShardsSumToTheWhole, ()) {
  const SmallLlama model = any_model();
  const int64_t ranks = any_of<int64_t>({2, 3, 4, 8});
  Job job;
  job.batch.sequence = 64;
  job.precision = Precision::kFloat32;
  const Architecture architecture = architecture_of(model);
  const Result<Program> whole = build(architecture, job);
  job.hardware.gpus = ranks;
  job.engine = DataParallelEngine::kFsdp2;
  const Result<Program> shard = build(architecture, job);
  RC_ASSERT(whole.has_value() && shard.has_value());
  bool divides = true;
  for (const ParameterTensor& p : architecture.parameters) divides = divides && p.shape[0] % ranks == 0;
  for (const Category category : {Category::kParameter, Category::kOptimizerState}) {
    const Bytes all_ranks = bytes_of_category(*shard, category) * ranks;
    const Bytes full = bytes_of_category(*whole, category);
    RC_ASSERT(all_ranks >= full);
    if (divides) RC_ASSERT(all_ranks == full);
  }
}

// Every degree 1 and every strategy "none", said aloud, is what one gets by saying nothing.
TEST(TrainingLaw, DegreeOneLeavesTheProgramAsItWas) {
  const auto text = [](const std::function<void(Job&)>& change) { return to_text(program_of({}, change)); };
  EXPECT_EQ(text([](Job&) {}), text([](Job& job) {
              job.parallel = {.data = 1, .tensor = 1, .pipeline = 1, .context = 1, .expert = 1};
              job.engine = DataParallelEngine::kNone;
              job.batch.accumulation = 1;
              job.recompute.kind = RecomputeKind::kNone;
            }));
}

TEST(TrainingLaw, RecomputeNoneChangesNoForwardProgram) {
  constexpr std::string_view kText = R"(plimsoll program 1 forward
tensor %0:bf16[8] input
region r0 block @layers.0 (%0) -> (%1)
begin r0  # layers.0
%1:bf16[8] = Silu(%0)
end r0
)";
  Result<Program> program = parse_program(kText, "fixture");
  ASSERT_TRUE(program);
  ASSERT_TRUE(mark_recompute(*program, {.kind = RecomputeKind::kNone}));
  EXPECT_EQ(to_text(*program), kText);
  ASSERT_TRUE(mark_recompute(*program, {.kind = RecomputeKind::kFull}));
  EXPECT_NE(to_text(*program), kText);
}

}  // namespace
}  // namespace plimsoll
