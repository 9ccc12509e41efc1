#include "importers/torchtitan/torchtitan_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kModel = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";

Result<TorchtitanJob> import(std::string_view more) {
  PLIMSOLL_TRY(document, parse_toml(fmt::format("{}{}", kModel, more), "titan.toml"));
  return torchtitan_job(document);
}
Job job_of(std::string_view more) {
  Result<TorchtitanJob> imported = import(more);
  EXPECT_TRUE(imported) << imported.error().to_text();
  return std::move(imported->job);
}
std::string error_of(std::string_view more) {
  const Result<TorchtitanJob> imported = import(more);
  return imported ? "no error" : imported.error().to_text();
}

TEST(TorchtitanConfig, WhatItDoesntSayIsTorchtitansDefault) {
  const Job job = job_of("");
  EXPECT_EQ(job.framework, Framework::kTorchtitan);
  EXPECT_EQ(job.torchtitan.release, TorchtitanRelease::k022);
  EXPECT_EQ(job.model.name, "llama-3.1-8b");
  EXPECT_EQ(job.batch.sequence, 2048);
  EXPECT_EQ(job.batch.micro_batch, 8);
  EXPECT_EQ(job.recompute.kind, RecomputeKind::kEveryNth);
  EXPECT_EQ(job.recompute.every_nth, 2);
  EXPECT_FALSE(job.loop.has_evaluation);
  EXPECT_FALSE(job.loop.has_save);
}

TEST(TorchtitanConfig, KeysBecomeFields) {
  const Job job = job_of(
      "[training]\nlocal_batch_size = 2\nseq_len = 8192\nmax_norm = 0.5\nmixed_precision_reduce = "
      "\"bfloat16\"\n"
      "global_batch_size = -1\n"
      "[optimizer]\nname = \"AdamW\"\nimplementation = \"foreach\"\n"
      "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n"
      "[compile]\nenable = true\ncomponents = [\"loss\"]\n"
      "[parallelism]\ndata_parallel_shard_degree = 16\ndata_parallel_replicate_degree = 2\n"
      "fsdp_reshard_after_forward = \"always\"\n"
      "[checkpoint]\nenable = true\n");
  EXPECT_EQ(job.batch.micro_batch, 2);
  EXPECT_EQ(job.batch.sequence, 8192);
  EXPECT_EQ(job.batch.global_batch, std::nullopt);
  EXPECT_EQ(job.loop.clip_max_norm, 0.5);
  EXPECT_EQ(job.fsdp2.reduce_dtype, DType::kBFloat16);
  EXPECT_EQ(job.optimizer.implementation, OptimizerImplementation::kForeach);
  EXPECT_EQ(job.recompute.kind, RecomputeKind::kSelective);
  EXPECT_FALSE(job.torchtitan.compiles_blocks);
  EXPECT_TRUE(job.torchtitan.compiles_loss);
  EXPECT_EQ(job.parallel.data, 32);
  EXPECT_EQ(job.fsdp2.replicate, 2);
  EXPECT_EQ(job.hardware.gpus, 32);
  EXPECT_EQ(job.torchtitan.reshard_after_forward, ReshardPolicy::kAlways);
  EXPECT_TRUE(job.loop.has_save);
}

TEST(TorchtitanConfig, OlderKeysMeanAnOlderRelease) {
  const Job job = job_of(
      "[training]\nbatch_size = 3\ncompile = true\ntensor_parallel_degree = 2\n"
      "[experimental]\ncontext_parallel_degree = 4\n[checkpoint]\nenable_checkpoint = false\n");
  EXPECT_EQ(job.torchtitan.release, TorchtitanRelease::k010);
  EXPECT_EQ(job.batch.micro_batch, 3);
  EXPECT_TRUE(job.torchtitan.compiles_blocks);
  EXPECT_EQ(job.parallel.tensor, 2);
  EXPECT_EQ(job.parallel.context, 4);
}

TEST(TorchtitanConfig, AFlavorThatIsNoPresetIsOneWithOverrides) {
  const auto document = parse_toml("[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n", "titan.toml");
  const Result<TorchtitanJob> imported = torchtitan_job(*document);
  ASSERT_TRUE(imported);
  EXPECT_THAT(imported->job.model.overrides,
              Contains(std::pair<std::string, std::string>{"hidden_size", "256"}));
}

TEST(TorchtitanConfig, KeysAreCountedAndUnknownOnesNamed) {
  const Result<TorchtitanJob> imported = import(
      "[training]\nseq_len = 4096\nsteps = 10\n[metrics]\nlog_freq = 1\n[odd]\nkey = 1\n[parallelism]\nodd = "
      "2\n");
  ASSERT_TRUE(imported);
  EXPECT_THAT(imported->notes, Contains(AllOf(HasSubstr("3 keys decide bytes"), HasSubstr("training.seq_len"),
                                              HasSubstr("2 decide none"))));
  EXPECT_THAT(imported->notes,
              Contains(HasSubstr("2 unknown keys are not applied: odd.key, parallelism.odd")));
  EXPECT_THAT(imported->notes, Contains(HasSubstr("batch.micro_batch=8")));
  EXPECT_THAT(imported->notes, Not(Contains(HasSubstr("batch.sequence=2048"))));
}

TEST(TorchtitanConfig, WhatIsNotModelledIsRefusedWithItsLine) {
  EXPECT_THAT(error_of("converters = [\"mx\"]\n"),
              AllOf(HasSubstr("titan.toml:4"), HasSubstr("the converters mx are not supported")));
  EXPECT_THAT(error_of("[optimizer]\nname = \"Adam\"\n"),
              HasSubstr("optimizer.name = Adam is not supported"));
  EXPECT_THAT(error_of("[activation_checkpoint]\nmode = \"memory_budget\"\n"), HasSubstr("memory_budget"));
  EXPECT_THAT(error_of("[training]\nmixed_precision_param = \"int8\"\n"), HasSubstr("bfloat16 or float16"));
  EXPECT_THAT(error_of("[training]\nseq_len = \"long\"\n"), HasSubstr("training.seq_len"));
}

TEST(TorchtitanConfig, Float8IsAConverter) {
  const TorchtitanSettings later =
      job_of(
          "converters = "
          "[\"quantize.linear.float8\"]\n[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n"
          "filter_fqns = [\"output\"]\n")
          .torchtitan;
  EXPECT_EQ(later.float8, Float8Recipe::kTensorwise);
  EXPECT_TRUE(later.gathers_float8);
  const TorchtitanSettings older =
      job_of("converters = [\"float8\"]\n[float8]\nrecipe_name = \"rowwise\"\n").torchtitan;
  EXPECT_EQ(older.float8, Float8Recipe::kRowwise);
  EXPECT_FALSE(older.gathers_float8);
  EXPECT_EQ(job_of("[float8]\nrecipe_name = \"rowwise\"\n").torchtitan.float8, Float8Recipe::kNone);
}

TEST(TorchtitanConfig, ContradictionsAreNamed) {
  EXPECT_THAT(error_of("[training]\nbatch_size = 1\nlocal_batch_size = 1\n"), HasSubstr("one of the two"));
  EXPECT_THAT(error_of("[parallelism]\ndata_parallel_shard_degree = 0\n"), HasSubstr("0 is no degree"));
  const Result<TorchtitanJob> imported =
      import("[activation_checkpoint]\nmode = \"full\"\nselective_ac_option = \"op\"\n");
  ASSERT_TRUE(imported);
  EXPECT_THAT(imported->notes, Contains(HasSubstr("selective_ac_option has no effect with mode full")));
}

TEST(TorchtitanConfig, AModelThatIsNotKnownIsNamed) {
  const auto document = parse_toml("[model]\nname = \"mamba\"\nflavor = \"1B\"\n", "titan.toml");
  const Result<TorchtitanJob> imported = torchtitan_job(*document);
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().to_text(), AllOf(HasSubstr("mamba 1B"), HasSubstr("llama3 8B")));
}

}  // namespace
}  // namespace plimsoll
