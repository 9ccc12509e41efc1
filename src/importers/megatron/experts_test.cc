#include "importers/megatron/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "importers/megatron/megatron_job.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

constexpr const char* kList = R"(--num-layers 4
--hidden-size 512
--num-attention-heads 8
--seq-length 1024
--max-position-embeddings 1024
--micro-batch-size 2
--tensor-model-parallel-size 2
--sequence-parallel
--swiglu
--disable-bias-linear
--vocab-size 1000
--bf16
--num-experts 8
--moe-ffn-hidden-size 256
)";

Result<MegatronJob> job_of(const std::string& more) {
  Result<MegatronArguments> arguments = read_megatron_arguments_text(kList + more, "list.args");
  if (!arguments) return fail(arguments.error());
  return megatron_job(*arguments, {.gpus = 8});
}

TEST(MegatronExperts, LayersAreANumberOrAPattern) {
  const auto layers = [](std::string_view text, int64_t count) { return expert_layers(text, count); };
  EXPECT_EQ(layers("1", 3), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(layers("2", 5), (std::vector<bool>{true, false, true, false, true}));
  EXPECT_EQ(layers("([0]*2+[1]*3)", 5), (std::vector<bool>{false, false, true, true, true}));
  EXPECT_EQ(layers("([1]+[0])*2", 4), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(layers("[0,1,1]", 3), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(layers("0 1 1", 3), (std::vector<bool>{false, true, true}));
  EXPECT_FALSE(layers("[1]*3", 4));
  EXPECT_FALSE(layers("0", 4));
  EXPECT_FALSE(layers("[1]*", 4));
  EXPECT_FALSE(layers("[1]*9999999999999*9999999999999", 4));
  EXPECT_FALSE(layers(std::string(100, '(') + "[1]" + std::string(100, ')'), 1));
}

TEST(MegatronExperts, ReadsShapesAndRanks) {
  const auto imported = job_of(
      "--moe-layer-freq [0]*1+[1]*3\n--expert-model-parallel-size 4\n--moe-router-topk 2\n"
      "--moe-token-dispatcher-type alltoall\n--moe-grouped-gemm\n--moe-router-dtype fp32\n"
      "--moe-shared-expert-intermediate-size 128\n--moe-aux-loss-coeff 0.01\n");
  ASSERT_TRUE(imported) << imported.error().to_text();
  EXPECT_FALSE(imported->architecture.layers[0].moe);
  ASSERT_TRUE(imported->architecture.layers[1].moe);
  EXPECT_FALSE(imported->architecture.layers[1].mlp);
  const Moe& moe = *imported->architecture.layers[1].moe;
  EXPECT_EQ(moe.experts, 8);
  EXPECT_EQ(moe.experts_per_token, 2);
  EXPECT_EQ(moe.expert_intermediate, 256);
  EXPECT_EQ(moe.shared_intermediate, 128);
  const MegatronExperts& e = imported->job.megatron->experts;
  EXPECT_EQ(e.expert_ranks, 4);
  EXPECT_EQ(e.dispatcher, MegatronDispatcher::kAllToAll);
  EXPECT_TRUE(e.has_grouped_gemm);
  EXPECT_TRUE(e.routes_in_float32);
  EXPECT_TRUE(e.has_auxiliary_loss);
  // Attention 4 h^2 and norms 4 h a layer; a dense MLP of 3 x 512 x 1344 (8/3 h in multiples of 64); experts
  // of 3 x 512 x 256, shared ones of 3 x 512 x 128 and a router; embedding and positions; the last norm.
  const int64_t dense = 4 * 512 * 512 + 4 * 512;
  EXPECT_EQ(imported->architecture.parameter_count(), 4 * dense + 3 * 512 * 1344 +
                                                          3 * (8 * 3 * 512 * 256 + 3 * 512 * 128 + 8 * 512) +
                                                          (1000 + 1024) * 512 + 2 * 512);
}

TEST(MegatronExperts, ReadsPatternsOfArguments) {
  for (const char* frequency : {"([0]*1+[1]*3)", "[0]*1+[1]*3", "\"[0]*1+[1]*3\"", "[0, 1, 1, 1]"}) {
    const auto imported = job_of(std::string("--moe-layer-freq ") + frequency + "\n");
    ASSERT_TRUE(imported) << imported.error().to_text();
    EXPECT_FALSE(imported->architecture.layers[0].moe) << frequency;
    EXPECT_TRUE(imported->architecture.layers[1].moe) << frequency;
  }
}

TEST(MegatronExperts, ReadsLatentAttention) {
  const auto imported = job_of(
      "--multi-latent-attention\n--q-lora-rank 192\n--kv-lora-rank 64\n--qk-head-dim 16\n"
      "--qk-pos-emb-head-dim 8\n--v-head-dim 12\n");
  ASSERT_TRUE(imported) << imported.error().to_text();
  const Attention& attention = imported->architecture.layers[0].attention;
  ASSERT_TRUE(attention.latent);
  EXPECT_EQ(attention.latent->query_rank, 192);
  EXPECT_EQ(attention.head_dim, 24);
  EXPECT_EQ(attention.value_head_dim, 12);
  EXPECT_EQ(attention.rotary_dim, 8);
}

TEST(MegatronExperts, RefusesWhatHasNoRecipe) {
  const auto refused = [](const std::string& more) {
    const auto imported = job_of(more);
    return imported ? std::string() : imported.error().to_text();
  };
  EXPECT_THAT(refused("--moe-token-dispatcher-type flex\n--moe-flex-dispatcher-backend hybridep\n"),
              HasSubstr("deepep"));
  EXPECT_THAT(refused("--moe-layer-freq [1]*3\n"), HasSubstr("no pattern of 4 layers"));
  EXPECT_THAT(refused("--moe-pad-expert-input-to-capacity\n"), HasSubstr("needs a capacity"));
  EXPECT_THAT(refused("--moe-router-load-balancing-type quantile_balancing\n"),
              HasSubstr("quantile_balancing"));
  EXPECT_THAT(refused("--moe-latent-size 64\n"), HasSubstr("latent size"));
}

}  // namespace
}  // namespace plimsoll
