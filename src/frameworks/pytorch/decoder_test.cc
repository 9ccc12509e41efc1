// Mechanisms of the decoders' recipes on small models. Figures of masks are those of PyTorch 2.13 with
// Transformers 5.24, traced: 1000 columns stay, 777 become 784, 1010 become 1016.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "frameworks/pytorch/small_model.h"
#include "frameworks/pytorch/training.h"

namespace plimsoll::pytorch {
namespace {

using testing::Each;
using testing::Not;
using testing::SizeIs;

int64_t columns_of_result(const Program& program, const Op& op) {
  return program.tensor(program.outputs(op)[0]).layout.size(-1);
}

size_t statement_of(const Program& program, StatementKind kind, uint32_t index) {
  const auto found = std::ranges::find_if(
      program.statements, [&](const Statement& s) { return s.kind == kind && s.index == index; });
  return static_cast<size_t>(found - program.statements.begin());
}

TEST(DecoderMasks, AWindowMasksFromTheSequenceThatReachesIt) {
  const Architecture mistral = small("mistral", {member("sliding_window", 16)});
  EXPECT_THAT(ops_of(forward_of(mistral, job_of(15)).program, OpKind::kWhere), SizeIs(0));
  const Program masked = forward_of(mistral, job_of(16)).program;
  // One mask of booleans for the model, an additive one for every layer.
  EXPECT_THAT(ops_of(masked, OpKind::kCompareTensor), SizeIs(2));  // after the window's start, not later
  EXPECT_THAT(ops_of(masked, OpKind::kWhere, "self_attn"), SizeIs(2));
  EXPECT_THAT(ops_of(masked, OpKind::kEfficientAttention), SizeIs(2));
}

TEST(DecoderMasks, AFusedKernelsMaskHasRowsOfWholeEights) {
  const Architecture mistral = small("mistral", {member("sliding_window", 16)});
  for (const auto& [sequence, columns] : {std::pair{777, 784}, {1010, 1016}}) {
    const Program program = forward_of(mistral, job_of(sequence)).program;
    std::vector<int64_t> padded;
    for (const Op* op : ops_of(program, OpKind::kPad, "self_attn"))
      padded.push_back(columns_of_result(program, *op));
    EXPECT_THAT(padded, SizeIs(2));
    EXPECT_THAT(padded, Each(columns));
  }
  EXPECT_THAT(ops_of(forward_of(mistral, job_of(1000)).program, OpKind::kPad, "self_attn"), SizeIs(0));
}

TEST(DecoderMasks, QwenLayersWithAWindowTakeAMaskOfTheirOwn) {
  const ConfigMember on{.key = "use_sliding_window", .value = {true}};
  const Architecture qwen =
      small("qwen2", {on, member("sliding_window", 16), member("max_window_layers", 1)});
  const Program program = forward_of(qwen, job_of(32)).program;
  EXPECT_THAT(ops_of(program, OpKind::kFlashAttention, "layers.0."), SizeIs(1));
  EXPECT_THAT(ops_of(program, OpKind::kEfficientAttention, "layers.1."), SizeIs(1));
}

TEST(DecoderCache, IsKeptAsTheConfigurationSaysUnlessRecomputing) {
  const Architecture llama = small("llama");
  ResolvedJob job = job_of(16);
  const auto joined = [&] {
    return ops_of(forward_of(llama, job).program, OpKind::kCat, "self_attn").size();
  };
  const size_t of_rotary = joined();
  job.loop.use_cache = UseCache::kConfig;
  EXPECT_EQ(joined(), of_rotary + 4);  // keys and values of two layers
  // Positions are looked through for packed sequences only without a cache.
  EXPECT_THAT(ops_of(forward_of(llama, job).program, OpKind::kCumsum), SizeIs(0));
  job.recompute.kind = RecomputeKind::kFull;
  EXPECT_EQ(joined(), of_rotary);
}

TEST(DecoderLayer, EagerAttentionWeightsStayInScopeToTheLayersEnd) {
  ResolvedJob job = job_of(16);
  job.attention = AttentionImplementation::kEager;
  const Program program = forward_of(small("llama"), job).program;
  const Op* softmax = ops_of(program, OpKind::kSoftmax, "layers.0.")[0];
  const Op* weights = softmax + 1;
  ASSERT_EQ(weights->kind, OpKind::kCast);
  const Op* last = ops_of(program, OpKind::kMm, "layers.0.mlp.down_proj")[0];
  const auto index_of = [&](const Op* op) { return static_cast<uint32_t>(op - program.ops.data()); };
  EXPECT_GT(statement_of(program, StatementKind::kDrop, program.outputs(*weights)[0].value),
            statement_of(program, StatementKind::kOp, index_of(last)));
}

TEST(DecoderRotary, TheFirstForwardMakesLongFrequenciesOnce) {
  EXPECT_THAT(forward_of(small("phi3"), job_of(16)).made_once, SizeIs(0));
  Architecture stretched = small("phi3");
  stretched.rope_type = "longrope";
  const ForwardProgram forward = forward_of(stretched, job_of(16));
  ASSERT_THAT(forward.made_once, SizeIs(1));
  const Storage& storage = forward.program.storage_of(forward.made_once[0]);
  EXPECT_EQ(storage.bytes, Bytes{4 * 4});  // head_dim 8 has 4 frequencies in fp32
  EXPECT_EQ(forward.program.module_name(storage.owner), "model.rotary_emb.long_inv_freq");
}

// 40 normed heads join in one cat: every one of them has a gradient.
TEST(DecoderAttention, EveryHeadsNormIsTrained) {
  const Architecture architecture = small("stablelm", {member("num_attention_heads", 40),
                                                       member("num_key_value_heads", 40),
                                                       member("hidden_size", 320),
                                                       {.key = "qk_layernorm", .value = {true}}});
  PassList passes({.verifies = true});
  const Result<Program> program = build_training(architecture, job_of(16), {.passes = &passes});
  ASSERT_TRUE(program) << program.error().to_text();
  for (std::string_view norm : {"q_layernorm.norms.0", "q_layernorm.norms.39", "k_layernorm.norms.39"})
    EXPECT_THAT(ops_of(*program, OpKind::kLayerNormBackward, norm), Not(SizeIs(0))) << norm;
}

}  // namespace
}  // namespace plimsoll::pytorch
