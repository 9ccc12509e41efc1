// Mechanisms of the decoders' recipes on small models. Figures of masks are those of PyTorch 2.13 with
// Transformers 5.24, traced: 1000 columns stay, 777 become 784, 1010 become 1016.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "frameworks/pytorch/forward.h"
#include "model/build_architecture.h"

namespace plimsoll::pytorch {
namespace {

using testing::Each;
using testing::SizeIs;

ConfigMember member(std::string key, int64_t value) { return {.key = std::move(key), .value = {value}}; }

Architecture small(const std::string& family, std::vector<ConfigMember> more = {}) {
  ConfigValue::Object config = {{.key = "model_type", .value = {family}},
                                member("vocab_size", 64),
                                member("hidden_size", 32),
                                member("intermediate_size", 48),
                                member("num_hidden_layers", 2),
                                member("num_attention_heads", 4),
                                member("num_key_value_heads", 2),
                                member("max_position_embeddings", 4096)};
  for (ConfigMember& m : more) config.push_back(std::move(m));
  Result<Architecture> architecture = build_architecture(config, {.file = "small"});
  EXPECT_TRUE(architecture) << architecture.error().to_text();
  return std::move(*architecture);
}

ResolvedJob job_of(int64_t sequence, int64_t micro_batch = 1) {
  return {.precision = Precision::kBFloat16, .batch = {.sequence = sequence, .micro_batch = micro_batch}};
}

ForwardProgram forward_of(const Architecture& architecture, const ResolvedJob& job) {
  Result<ForwardProgram> forward =
      record_forward(architecture, job, std::vector<bool>(architecture.parameters.size(), true), {});
  EXPECT_TRUE(forward) << forward.error().to_text();
  return std::move(*forward);
}

std::vector<const Op*> ops_of(const Program& program, OpKind kind, std::string_view module_part = "") {
  std::vector<const Op*> found;
  for (const Op& op : program.ops)
    if (op.kind == kind && program.module_name(op.module).find(module_part) != std::string::npos)
      found.push_back(&op);
  return found;
}

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

}  // namespace
}  // namespace plimsoll::pytorch
