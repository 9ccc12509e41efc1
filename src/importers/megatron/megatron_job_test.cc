#include "importers/megatron/megatron_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kList = R"(--num-layers 4
--hidden-size 512
--num-attention-heads 8
--seq-length 1024
--max-position-embeddings 1024
--micro-batch-size 2
--global-batch-size 16
--tensor-model-parallel-size 2
--lr 6.0e-5
--bf16
)";

Result<MegatronJob> job_of(const std::string& text, int64_t gpus = 8) {
  Result<MegatronArguments> arguments = read_megatron_arguments_text(text, "list.args");
  if (!arguments) return fail(arguments.error());
  return megatron_job(*arguments, {.gpus = gpus});
}

TEST(MegatronJob, ReadsAList) {
  const auto imported = job_of(kList);
  ASSERT_TRUE(imported) << imported.error().to_text();
  EXPECT_EQ(imported->job.parallel.tensor, 2);
  EXPECT_EQ(imported->job.batch.global_batch, 16);
  EXPECT_EQ(imported->job.megatron->precision, MegatronPrecision::kBFloat16);
  EXPECT_EQ(imported->architecture.layers.size(), 4U);
  // 12 h^2 + 13 h a layer; embeddings of 50257 tokens and 1024 positions; the last norm.
  EXPECT_EQ(imported->architecture.parameter_count(),
            4 * (12 * 512 * 512 + 13 * 512) + (50257 + 1024) * 512 + 2 * 512);
}

TEST(MegatronJob, ReadsTheYamlOfTheFunctionalTests) {
  const std::string yaml =
      "ENV_VARS:\n  CUBLAS_WORKSPACE_CONFIG: :4096:8\nMODEL_ARGS:\n  --num-layers: 4  # few\n"
      "  --hidden-size: 512\n  --num-attention-heads: 8\n  --seq-length: 1024\n"
      "  --max-position-embeddings: 1024\n  --micro-batch-size: 2\n  --bf16: true\n"
      "  --use-distributed-optimizer: true\n  --swiglu: false\nTEST_TYPE: regular\n";
  const auto imported = job_of(yaml);
  ASSERT_TRUE(imported) << imported.error().to_text();
  EXPECT_TRUE(imported->job.megatron->has_fixed_cublas_workspace);
  EXPECT_TRUE(imported->job.megatron->has_distributed_optimizer);
  EXPECT_FALSE(imported->architecture.layers[0].mlp->is_gated);
}

TEST(MegatronJob, CountsAndNamesWhatItDoesNotKnow) {
  const auto imported = job_of(std::string(kList) + "--no-such-thing 3\n");
  ASSERT_TRUE(imported);
  EXPECT_THAT(imported->architecture.notes, Contains(HasSubstr("1 arguments are not known here")));
  EXPECT_THAT(imported->architecture.notes, Contains(HasSubstr("--no-such-thing")));
  EXPECT_THAT(imported->architecture.notes, Contains(HasSubstr("1 on which no byte depends")));
}

TEST(MegatronJob, RefusesWithFileLineAndName) {
  const auto contradiction = job_of(std::string(kList) + "--fp16\n");
  ASSERT_FALSE(contradiction);
  EXPECT_THAT(contradiction.error().to_text(), HasSubstr("list.args:11"));
  EXPECT_THAT(contradiction.error().to_text(), HasSubstr("contradicts --bf16"));
  const auto unsupported = job_of(std::string(kList) + "--mtp-num-layers 1\n");
  ASSERT_FALSE(unsupported);
  EXPECT_THAT(unsupported.error().to_text(), HasSubstr("multi-token prediction"));
  const auto twice = job_of(std::string(kList) + "--num-layers 5\n");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().to_text(), HasSubstr("given twice"));
  const auto words = job_of(std::string(kList) + "--vocab-file words.txt\n");
  ASSERT_FALSE(words);
  EXPECT_THAT(words.error().to_text(), HasSubstr("--merge-file"));
  const auto bad = job_of("--num-layers many\n");
  ASSERT_FALSE(bad);
}

}  // namespace
}  // namespace plimsoll
