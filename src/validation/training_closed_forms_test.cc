// What whole training runs keep and gather, against closed forms. The formulas are stated here with the
// differences that apply; none is in the product.
#include <gtest/gtest.h>

#include "validation/small_jobs.h"

namespace plimsoll {
namespace {

int64_t parameters_of_layer(const SmallLlama& n) {
  return n.hidden * n.head_dim * (2 * n.heads + 2 * n.kv_heads) + 3 * n.hidden * n.intermediate +
         2 * n.hidden;
}

// What one more layer keeps from the forward to the backward.
int64_t kept_by_a_layer(const SmallLlama& n, const std::function<void(Job&)>& change) {
  const auto live = [&](int64_t layers) {
    SmallLlama model = n;
    model.layers = layers;
    return phase_of(play(program_of(model, change)), "bwd1").live_start.value;
  };
  return live(3) - live(2) - 2 * parameters_of_layer(n);
}

// A modern layer keeps T (8h + 4ad + 4kd + 4a + 8f) when SwiGLU isn't fused; T tokens, h hidden, a query
// heads, k key-value heads, d head dim, f intermediate. Transformers' RMSNorm computes in fp32 by single ops:
// of each of the two norms it keeps the fp32 copy (4h), the normalised half (2h) and its output (2h) instead
// of input and output (4h), and one fp32 statistic a row. The attention kernel keeps its seed and offset,
// 512 bytes each as the allocator rounds.
TEST(TrainingClosedForms, ALlamaLayerOfTransformers) {
  for (const SmallLlama& n : {SmallLlama{}, SmallLlama{.intermediate = 1536, .kv_heads = 8}}) {
    for (const int64_t micro_batch : {1, 2}) {
      const int64_t tokens = 256 * micro_batch;
      const int64_t per_token = 8 * n.hidden + 4 * n.heads * n.head_dim + 4 * n.kv_heads * n.head_dim +
                                4 * n.heads + 8 * n.intermediate;
      const int64_t of_fp32_norms = 8 * n.hidden + 2 * 4;
      EXPECT_EQ(kept_by_a_layer(n, [&](Job& job) { job.batch.micro_batch = micro_batch; }),
                tokens * (per_token + of_fp32_norms) + 2 * 512);
    }
  }
}

// Full recompute keeps the block's input: 2h per token.
TEST(TrainingClosedForms, FullRecomputeKeepsTheInputOfEachBlock) {
  const SmallLlama n;
  for (const bool is_reentrant : {false, true})
    EXPECT_EQ(kept_by_a_layer(n,
                              [&](Job& job) {
                                job.recompute = {.kind = RecomputeKind::kFull, .is_reentrant = is_reentrant};
                              }),
              256 * 2 * n.hidden)
        << is_reentrant;
}

// ---- FSDP2 ----

constexpr int64_t kRanks = 4;

void fsdp2(Job& job) {
  job.precision = Precision::kFloat32;
  job.hardware.gpus = kRanks;
  job.engine = DataParallelEngine::kFsdp2;
}

bool is_of_a_layer(const Program& program, const Storage& s) {
  return program.module_name(s.owner).find("layers.") != std::string::npos;
}

// fp32 shards, bf16 compute: 4/N bytes a parameter for the shard, 4/N for its gradient, 8/N for AdamW.
TEST(TrainingClosedForms, Fsdp2KeepsSixteenBytesAParameterOverTheRanks) {
  const SmallLlama n;
  const Program program = program_of(n, fsdp2);
  const MemoryTimeline timeline = play(program);
  const int64_t parameters = architecture_of(n).parameter_count();
  const auto held = [&](Category category) {
    return peak_of(program, timeline, "step1", [&](const Storage& s) { return s.category == category; });
  };
  EXPECT_EQ(held(Category::kParameter), Bytes{4 * parameters / kRanks});
  EXPECT_EQ(held(Category::kGradient), Bytes{4 * parameters / kRanks});
  // foreach AdamW counts its steps on the host.
  EXPECT_EQ(held(Category::kOptimizerState), Bytes{8 * parameters / kRanks});
}

// Groups of n parameters, bf16 compute and gradients, fp32 reduction. Forward 6n: the parameters, the gather
// they were copied out of, the next group's gather. Backward 10n: parameters, the next gather, gradients,
// and the previous reduction's fp32 input. (Gathered: everything but the root's own parameters.)
TEST(TrainingClosedForms, Fsdp2GathersSixAndTenBytesAParameterOfAGroup) {
  const SmallLlama n{.vocab = 64, .layers = 6};
  for (const RecomputeKind recompute : {RecomputeKind::kNone, RecomputeKind::kFull}) {
    const Program program = program_of(n, [&](Job& job) {
      fsdp2(job);
      job.recompute.kind = recompute;
    });
    const MemoryTimeline timeline = play(program);
    const auto is_gathered = [&](const Storage& s) {
      switch (s.category) {
        case Category::kGatherBuffer:
        case Category::kReduceBuffer:
          return true;
        case Category::kUnshardedParameter:
        case Category::kUnshardedGradient:
          return is_of_a_layer(program, s);
        default:
          return false;
      }
    };
    const int64_t group = parameters_of_layer(n);
    EXPECT_EQ(peak_of(program, timeline, "fwd2", is_gathered), Bytes{6 * group});
    EXPECT_EQ(peak_of(program, timeline, "bwd2", is_gathered), Bytes{10 * group});
  }
}

}  // namespace
}  // namespace plimsoll
