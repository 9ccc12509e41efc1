#include "strategy/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "strategy/job_file.h"
#include "strategy/usage.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Architecture llama() {
  Architecture a{.name = "small-llama",
                 .family = "llama",
                 .class_name = "LlamaForCausalLM",
                 .vocab = 1000,
                 .hidden = 64,
                 .max_position = 8192,
                 .position = PositionKind::kRotary};
  const Attention attention{.heads = 4, .kv_heads = 2, .head_dim = 16, .value_head_dim = 16};
  a.layers.assign(4, {.attention = attention, .mlp = Mlp{.intermediate = 128}});
  for (const char* name :
       {"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "lm_head.weight"})
    a.parameters.push_back({.name = name, .shape = {8, 8}});
  return a;
}

Architecture of_family(std::string family) {
  Architecture a = llama();
  a.family = std::move(family);
  return a;
}

Architecture gpt2() {
  Architecture a = of_family("gpt2");
  a.max_position = 1024;
  a.position = PositionKind::kLearned;
  a.is_tied = true;
  return a;
}

Architecture mixtral() {
  Architecture a = of_family("mixtral");
  for (Layer& layer : a.layers) {
    layer.mlp.reset();
    layer.moe = Moe{.experts = 8, .experts_per_token = 2};
  }
  return a;
}

Job job_of(std::initializer_list<std::string_view> settings) {
  Job job;
  for (const std::string_view setting : settings)
    if (const auto done = apply_setting(job, setting); !done) ADD_FAILURE() << done.error().to_text();
  return job;
}

Result<ResolvedJob> resolved(std::initializer_list<std::string_view> settings,
                             const Architecture& a = llama(),
                             const GpuFacts& gpu = {.name = "h100-80gb", .compute_capability = 90}) {
  return resolve(job_of(settings), a, gpu);
}

std::string error_of(std::initializer_list<std::string_view> settings, const Architecture& a = llama(),
                     const GpuFacts& gpu = {.name = "h100-80gb", .compute_capability = 90}) {
  const auto result = resolved(settings, a, gpu);
  return result ? "no error" : result.error().to_text();
}

std::vector<std::string> assumed(const ResolvedJob& job) {
  std::vector<std::string> texts;
  for (const Assumption& assumption : job.assumed) texts.push_back(assumption.to_text());
  return texts;
}

TEST(Resolve, OneGpuHasNoSharding) {
  const auto job = resolved({});
  ASSERT_TRUE(job) << job.error().to_text();
  EXPECT_EQ(job->mesh, Mesh{});
  EXPECT_EQ(job->engine, DataParallelEngine::kNone);
  EXPECT_EQ(job->precision, Precision::kFloat32);
  EXPECT_EQ(job->batch, (Batch{.sequence = 4096, .micro_batch = 1, .accumulation = 1, .global_batch = 1}));
  EXPECT_EQ(job->optimizer, Optimizer{});
  EXPECT_EQ(job->attention, AttentionImplementation::kSdpa);
  EXPECT_EQ(job->matmul_dtype(), DType::kFloat32);
  EXPECT_TRUE(job->notes.empty());
}

TEST(Resolve, MoreGpusShardOverAll) {
  const auto job = resolved({"hardware.gpus=16"});
  ASSERT_TRUE(job) << job.error().to_text();
  EXPECT_EQ(job->mesh, (Mesh{.world = 16, .data = 16, .replicate = 1, .shard = 16, .gpus_per_node = 8}));
  EXPECT_EQ(job->engine, DataParallelEngine::kFsdp2);
  EXPECT_EQ(job->precision, Precision::kFloat32);
  EXPECT_EQ(job->fsdp2.param_dtype, DType::kBFloat16);
  EXPECT_EQ(job->fsdp2.reduce_dtype, DType::kFloat32);
  EXPECT_EQ(job->matmul_dtype(), DType::kBFloat16);
  EXPECT_EQ(job->batch.global_batch, 16);
}

TEST(Resolve, EveryDefaultIsAssumedWithItsReason) {
  const auto job = resolved({"batch.micro_batch=2", "loop.save=true"});
  const auto texts = assumed(*job);
  EXPECT_THAT(
      texts, Contains("precision = fp32 (the configuration names no dtype: PyTorch's default, and what older "
                      "checkpoints hold)"));
  EXPECT_THAT(texts, Contains("batch.sequence = 4096 (a usual length)"));
  EXPECT_THAT(texts, Contains("optimizer.name = adamw (AdamW with foreach is PyTorch's default on a GPU)"));
  EXPECT_THAT(texts, Contains("loop.clip_max_norm = none (the plain training loop)"));
  EXPECT_THAT(texts, Not(Contains(HasSubstr("batch.micro_batch"))));
  EXPECT_THAT(texts, Not(Contains(HasSubstr("loop.save"))));
  EXPECT_THAT(texts, Not(Contains(HasSubstr("fsdp2."))));
  EXPECT_THAT(texts, Not(Contains(HasSubstr("experts."))));
  EXPECT_THAT(assumed(*resolved({"hardware.gpus=8"})),
              Contains(HasSubstr("fsdp2.reshard_after_forward = true")));
}

TEST(Resolve, SequenceIsLimitedByTheModel) {
  EXPECT_EQ(resolved({}, gpt2())->batch.sequence, 1024);
  EXPECT_THAT(assumed(*resolved({}, gpt2())),
              Contains("batch.sequence = 1024 (the model's limit, lower than 4096)"));
  EXPECT_EQ(error_of({"batch.sequence=2048"}, gpt2()),
            "key \"batch.sequence\": 2048 is longer than the 1024 learned positions of small-llama\n"
            "  expected: at most 1024");
  EXPECT_THAT(resolved({"batch.sequence=16384"})->notes,
              ElementsAre(HasSubstr("longer than the 8192 positions")));
}

TEST(Resolve, DegreesMustDivideTheGpus) {
  EXPECT_THAT(error_of({"hardware.gpus=8", "parallel.tensor=3"}),
              AllOf(HasSubstr("8 is not a multiple of tensor 3 x pipeline 1 x context 1 = 3"),
                    HasSubstr("3 does not divide the")));
  EXPECT_THAT(error_of({"hardware.gpus=8", "parallel.data=4"}),
              HasSubstr("8 is not data 4 x tensor 1 x pipeline 1 x context 1 = 4"));
  EXPECT_THAT(error_of({"parallel.sequence=true"}), HasSubstr("sequence parallelism is not supported"));
  EXPECT_THAT(error_of({"framework=megatron"}),
              HasSubstr("megatron is not supported yet\n  expected: pytorch"));
}

TEST(Resolve, Nodes) {
  EXPECT_EQ(resolved({"hardware.gpus=3"})->mesh.gpus_per_node, 3);
  EXPECT_EQ(resolved({"hardware.gpus=12"})->mesh.gpus_per_node, 6);
  EXPECT_EQ(resolved({"hardware.gpus=4", "hardware.gpus_per_node=8"})->mesh.gpus_per_node, 4);
  EXPECT_THAT(error_of({"hardware.gpus=12", "hardware.gpus_per_node=8"}),
              HasSubstr("12 is not a multiple of hardware.gpus_per_node 8"));
}

TEST(Resolve, GlobalBatchFollowsOrIsChecked) {
  EXPECT_EQ(resolved({"hardware.gpus=8", "batch.global_batch=96", "batch.micro_batch=3"})->batch.accumulation,
            4);
  EXPECT_EQ(resolved({"hardware.gpus=8", "batch.global_batch=96", "batch.accumulation=4"})->batch.micro_batch,
            3);
  EXPECT_EQ(resolved({"hardware.gpus=8", "batch.accumulation=4"})->batch.global_batch, 32);
  EXPECT_THAT(error_of({"hardware.gpus=8", "batch.global_batch=100", "batch.micro_batch=3"}),
              HasSubstr("100 is not a multiple of micro_batch 3 x data-parallel ranks 8 = 24"));
  EXPECT_THAT(error_of({"hardware.gpus=8", "batch.global_batch=100", "batch.accumulation=5"}),
              HasSubstr("100 is not a multiple of accumulation 5 x data-parallel ranks 8 = 40"));
  EXPECT_THAT(error_of({"batch.global_batch=8", "batch.accumulation=2", "batch.micro_batch=2"}),
              HasSubstr("8 is not micro_batch 2 x accumulation 2 x data-parallel ranks 1 = 4"));
  EXPECT_THAT(error_of({"batch.global_batch=1", "batch.micro_batch=2"}), HasSubstr("1 is not a multiple of"));
  EXPECT_THAT(error_of({"batch.micro_batch=1048576", "batch.sequence=134217728"}),
              HasSubstr("micro_batch 1048576 x sequence 134217728 = 140737488355328 tokens"));
}

TEST(Resolve, EnginesNeedTheirRanks) {
  EXPECT_THAT(error_of({"parallel.engine=none", "hardware.gpus=8"}), HasSubstr("8 data-parallel ranks"));
  EXPECT_THAT(error_of({"parallel.engine=ddp"}), HasSubstr("over a single data-parallel rank"));
  EXPECT_EQ(resolved({"parallel.engine=ddp", "hardware.gpus=2"})->mesh.replicate, 2);
  EXPECT_EQ(resolved({"parallel.engine=ddp", "hardware.gpus=2"})->precision, Precision::kFloat32);
}

TEST(Resolve, HybridSharding) {
  const auto job = resolved({"hardware.gpus=16", "fsdp2.replicate=2"});
  EXPECT_EQ(job->mesh.replicate, 2);
  EXPECT_EQ(job->mesh.shard, 8);
  EXPECT_THAT(error_of({"hardware.gpus=16", "fsdp2.replicate=3"}),
              HasSubstr("3 does not divide the 16 data-parallel ranks"));
  EXPECT_THAT(error_of({"hardware.gpus=16", "fsdp2.replicate=16"}), HasSubstr("leave nothing to shard"));
  EXPECT_THAT(error_of({"hardware.gpus=2", "fsdp2.split_head=true"}, gpt2()), HasSubstr("are tied"));
}

TEST(Resolve, OptionsWithoutEffectAreContradictions) {
  EXPECT_EQ(error_of({"fsdp2.cpu_offload=true"}),
            "key \"fsdp2.cpu_offload\": true has no effect in this job\n  expected: parallel.engine = fsdp2");
  EXPECT_THAT(error_of({"loss.chunks=4"}), HasSubstr("loss.path = chunked"));
  EXPECT_THAT(error_of({"recompute.kept_ops=mm"}), HasSubstr("recompute.mode = selective"));
  EXPECT_THAT(error_of({"attention.implementation=eager", "attention.sdpa_backend=math"}),
              HasSubstr("attention.implementation = sdpa"));
  EXPECT_THAT(error_of({"experts.implementation=grouped_mm"}), HasSubstr("a model with experts"));
  EXPECT_THAT(error_of({"optimizer.name=none", "loop.clip_max_norm=1"}), HasSubstr("an optimizer step"));
  EXPECT_THAT(resolved({"loop.no_sync=true"})->notes,
              ElementsAre(HasSubstr("loop.no_sync has no effect here")));
  EXPECT_THAT(resolved({"ddp.bucket_cap_mb=25"})->notes,
              ElementsAre(HasSubstr("ddp.bucket_cap_mb has no effect")));
}

TEST(Resolve, AModelIsLoadedInTheDtypeThatItsConfigurationNames) {
  Architecture a = of_family("llama");
  EXPECT_EQ(resolved({}, a)->precision, Precision::kFloat32);
  for (const auto& [dtype, precision] : {std::pair{DType::kFloat32, Precision::kFloat32},
                                         {DType::kFloat16, Precision::kFloat16},
                                         {DType::kBFloat16, Precision::kBFloat16}}) {
    a.published_dtype = dtype;
    EXPECT_EQ(resolved({}, a)->precision, precision);
    EXPECT_EQ(resolved({"precision=amp-bf16"}, a)->precision, Precision::kAutocastBFloat16);
    EXPECT_EQ(resolved({"hardware.gpus=8"}, a)->precision, Precision::kFloat32);  // of the shards
  }
}

TEST(Resolve, ANodeOfMoreGpusThanTheJobHasIsNoted) {
  const auto job = resolved({"hardware.gpus=2", "hardware.gpus_per_node=8"});
  EXPECT_EQ(job->mesh.gpus_per_node, 2);
  EXPECT_THAT(job->notes, Contains(HasSubstr("hardware.gpus_per_node 8 is more than the 2 GPUs")));
  EXPECT_THAT(resolved({"hardware.gpus=8", "hardware.gpus_per_node=8"})->notes,
              Not(Contains(HasSubstr("gpus_per_node"))));
}

TEST(Resolve, AttentionIsTheModelClassesOwn) {
  for (const char* family : {"bloom", "gemma2", "gpt_oss"}) {
    const Architecture a = of_family(family);
    EXPECT_EQ(resolved({}, a)->attention, AttentionImplementation::kEager) << family;
    EXPECT_THAT(error_of({"attention.implementation=sdpa"}, a), HasSubstr("has no sdpa in Transformers"));
  }
  EXPECT_THAT(
      error_of({"attention.implementation=flash_attention_2", "precision=bf16"}, of_family("llama4_text")),
      HasSubstr("llama4_text has no flash_attention_2 in Transformers\n  expected: eager or sdpa"));
}

TEST(Resolve, FlashKernelsHaveConditions) {
  EXPECT_EQ(resolved({"attention.implementation=flash-attention-2", "precision=bf16"})->attention,
            AttentionImplementation::kFlashAttention2);
  EXPECT_THAT(error_of({"attention.implementation=flash_attention_2", "precision=fp32"}),
              HasSubstr("flash_attention_2 computes in bf16 and fp16 only, this job's attention in fp32"));
  EXPECT_THAT(error_of({"attention.sdpa_backend=flash", "precision=fp32"}),
              HasSubstr("sdpa's flash backend"));
  EXPECT_EQ(error_of({"attention.sdpa_backend=flash", "precision=amp-fp16"}), "no error");
  EXPECT_THAT(error_of({"attention.sdpa_backend=flash", "precision=fp16"}, llama(),
                       {.name = "t4", .compute_capability = 75}),
              HasSubstr("does not run on t4 (sm_75)"));
  Architecture wide = llama();
  for (Layer& layer : wide.layers) layer.attention.head_dim = 512;
  EXPECT_THAT(error_of({"attention.implementation=flash_attention_2"}, wide),
              HasSubstr("no kernel for head_dim 512"));
}

TEST(Resolve, Experts) {
  EXPECT_EQ(resolved({}, mixtral())->experts, ExpertsImplementation::kGroupedMm);
  EXPECT_THAT(error_of({"precision=amp-bf16"}, mixtral()),
              HasSubstr("amp-bf16 with experts is not supported"));
  EXPECT_THAT(error_of({"experts.implementation=eager"}, mixtral()), HasSubstr("depend on the routing"));
  Architecture balanced = mixtral();
  balanced.layers[0].moe->has_balance_loss = true;
  EXPECT_THAT(error_of({}, balanced), HasSubstr("output_router_logits: the load balancing loss"));
  Architecture mixed = mixtral();
  mixed.parameters.push_back({.name = "model.layers.0.mlp.gate.weight", .is_float32 = true});
  EXPECT_THAT(error_of({"precision=bf16", "parallel.engine=fsdp2", "hardware.gpus=8"}, mixed),
              HasSubstr("FSDP2 wants parameters of one dtype"));
  EXPECT_THAT(resolved({"precision=fp32"}, mixtral())->notes,
              ElementsAre(HasSubstr("grouped_mm in fp32"), HasSubstr("counted out of place")));
}

TEST(Resolve, TorchtitanHasDefaultsOfItsOwn) {
  const auto job = resolved({"framework=torchtitan", "hardware.gpus=8"});
  EXPECT_EQ(job->optimizer.implementation, OptimizerImplementation::kFused);
  EXPECT_EQ(job->loop.clip_max_norm, 1.0);
  EXPECT_EQ(job->allocator.configuration, "expandable_segments:True");
  EXPECT_EQ(job->sdpa_backend, SdpaBackend::kCudnnFirst);
  EXPECT_EQ(resolved({"framework=torchtitan", "hardware.gpus=8", "torchtitan.release=0.1.0"})->sdpa_backend,
            SdpaBackend::kAutomatic);
  const auto plain = resolved(
      {"framework=torchtitan", "hardware.gpus=8", "allocator.configuration=expandable_segments:False"});
  EXPECT_EQ(plain->allocator.configuration, "expandable_segments:False");
}

TEST(Resolve, WhatTorchtitanHasNoRecipeForIsRefused) {
  const auto titan_error = [](std::string_view setting, const Architecture& a = llama()) {
    return error_of({"framework=torchtitan", "hardware.gpus=8", setting}, a);
  };
  EXPECT_THAT(titan_error("parallel.tensor=2"), HasSubstr("tensor parallelism with framework torchtitan"));
  EXPECT_THAT(titan_error("precision=amp-bf16"), HasSubstr("the shards' dtype"));
  EXPECT_THAT(titan_error("optimizer.name=sgd"), HasSubstr("sgd with framework torchtitan"));
  EXPECT_THAT(titan_error("loss.path=chunked"), HasSubstr("chunked with framework torchtitan"));
  EXPECT_THAT(titan_error("torchtitan.compile_blocks=true"), HasSubstr("recompute.mode selective or full"));
  EXPECT_THAT(titan_error("torchtitan.float8=rowwise"), HasSubstr("torchtitan.compile_blocks = true"));
  EXPECT_THAT(titan_error("torchtitan.float8_all_gather=true"), HasSubstr("torchtitan.float8 = tensorwise"));
  EXPECT_THAT(titan_error("fsdp2.split_head=true"), HasSubstr("another framework than torchtitan"));
  EXPECT_THAT(titan_error("precision=fp32", of_family("mixtral")), HasSubstr("no family mixtral"));
  EXPECT_THAT(titan_error("torchtitan.release=0.1.0", of_family("qwen3")), HasSubstr("0.1.0 has no Qwen 3"));
  EXPECT_THAT(error_of({"framework=torchtitan"}), HasSubstr("none with framework torchtitan"));
  EXPECT_THAT(error_of({"torchtitan.compile_loss=true"}), HasSubstr("framework = torchtitan"));
}

TEST(Resolve, OptimizerStep) {
  EXPECT_THAT(error_of({"optimizer.name=sgd-fused"}), HasSubstr("no shape function of fused SGD"));
  EXPECT_EQ(resolved({"hardware.gpus=8", "fsdp2.cpu_offload=true"})->optimizer.implementation,
            OptimizerImplementation::kForLoop);
  EXPECT_EQ(resolved({"hardware.gpus=8", "fsdp2.cpu_offload=true", "optimizer.name=adamw"})
                ->optimizer.implementation,
            OptimizerImplementation::kForeach);
}

TEST(Resolve, Recompute) {
  EXPECT_THAT(error_of({"recompute.mode=selective", "recompute.kept_ops=mm,add_mm"}),
              AllOf(HasSubstr("\"add_mm\" is not an op"), HasSubstr("did you mean addmm or")));
  EXPECT_THAT(resolved({"recompute.mode=every-9"})->notes,
              ElementsAre(HasSubstr("only the first of 4 blocks")));
  EXPECT_THAT(resolved({"recompute.mode=full", "loop.use_cache=config"})->notes,
              ElementsAre(HasSubstr("use_cache")));
}

TEST(Resolve, LossAndTask) {
  Architecture bert = of_family("bert");
  bert.task = Task::kMaskedLm;
  EXPECT_THAT(error_of({"loss.path=fused-linear"}, bert), HasSubstr("needs a causal language model"));
  EXPECT_THAT(error_of({"model.task=masked-lm"}), HasSubstr("masked-lm is not what LlamaForCausalLM is"));
  EXPECT_THAT(error_of({"loss.path=chunked", "loss.chunks=10", "batch.sequence=10"}),
              HasSubstr("10 pieces of micro_batch 1 x (sequence 10 - 1) = 9 predicted tokens"));
  EXPECT_EQ(error_of({"loss.path=chunked", "loss.chunks=9", "batch.sequence=10"}), "no error");
  EXPECT_THAT(error_of({"loss.path=chunked", "loss.chunks=1", "batch.sequence=1"}),
              HasSubstr("expected: batch.sequence = 2 or more"));
}

TEST(Resolve, ShardsThatDontDivideAreNoted) {
  Architecture experts = llama();
  experts.parameters = {{.name = "model.layers.0.mlp.experts.gate_up_proj", .shape = {8, 16384, 16384}}};
  EXPECT_THAT(resolved({"hardware.gpus=8"}, experts)->notes, IsEmpty());
  // A rank holds a whole expert of 1 GiB in fp32, though there are only half as many as ranks.
  EXPECT_THAT(resolved({"hardware.gpus=16"}, experts)->notes,
              ElementsAre(HasSubstr("holds 1.00 GiB of parameters, 0.50 GiB more than an even share")));
}

// Of `plimsoll train`: what the optimizer reads passes silently.
TEST(Resolve, SettingsOfOtherOptimizersAreNoted) {
  Job job;
  for (const char* setting : {"optimizer.name=adafactor", "train.momentum=0.5", "train.clip_threshold=2",
                              "train.beta2=0.999", "train.weight_decay=0.1"})
    ASSERT_TRUE(apply_setting(job, setting));
  EXPECT_THAT(notes_on_optimizer(job),
              ElementsAre("train.beta2 has no effect with adafactor, it is read by adamw and lion",
                          "train.momentum has no effect with adafactor, it is read by sgd-momentum"));
}

// ... and what neither the schedule nor the machine reads.
TEST(Resolve, SettingsThatTrainingDoesNotReadAreNoted) {
  Job job;
  for (const char* setting :
       {"train.schedule=constant", "train.final_learning_rate=0.1", "train.warmup_steps=5", "train.steps=5",
        "train.resume=false", "hardware.gpu=a100-80gb"})
    ASSERT_TRUE(apply_setting(job, setting));
  EXPECT_THAT(notes_on_training(job),
              ElementsAre(HasSubstr("train.warmup_steps 5 are no fewer than train.steps 5"),
                          "train.final_learning_rate has no effect here: it needs train.schedule = cosine",
                          "train.resume has no effect here: it needs train.checkpoints",
                          HasSubstr("hardware.gpu has no effect here")));
  EXPECT_THAT(notes_on_training({}), ElementsAre());
}

TEST(Resolve, HarmlessOptionsWithoutEffectAreNoted) {
  const auto note_of = [](std::initializer_list<std::string_view> settings, const Architecture& a = llama()) {
    const auto notes = resolved(settings, a)->notes;
    return notes.empty() ? std::string() : notes.front();
  };
  EXPECT_THAT(note_of({"hardware.gpus=8", "fsdp2.cast_forward_inputs=false"}),
              HasSubstr("fsdp2.cast_forward_inputs has no effect here"));
  Architecture without_buffers = llama(), with_buffers = llama();
  without_buffers.buffers.clear();
  with_buffers.buffers = {{.name = "rotary.inv_freq", .shape = {64}}};
  EXPECT_THAT(
      note_of({"hardware.gpus=8", "parallel.engine=ddp", "ddp.broadcast_buffers=false"}, without_buffers),
      HasSubstr("a model with buffers"));
  EXPECT_EQ(note_of({"hardware.gpus=8", "parallel.engine=ddp", "ddp.broadcast_buffers=false"}, with_buffers),
            "");
  EXPECT_THAT(note_of({"loop.input_require_grads=true"}), HasSubstr("a frozen embedding"));
}

TEST(Resolve, Trainable) {
  EXPECT_EQ(error_of({"loop.trainable=q_proj|v_proj"}), "no error");
  EXPECT_THAT(error_of({"loop.trainable=lora"}), HasSubstr("\"lora\" matches none of 3 parameters"));
  std::string costly = "loop.trainable=";
  for (int i = 0; i < 40; ++i) costly += "(.*)*";
  EXPECT_THAT(error_of({costly + "#"}), HasSubstr("matches none"));
  costly = "#";
  for (int i = 0; i < 30; ++i) costly = "(?=.*" + costly + ")";
  EXPECT_THAT(error_of({"loop.trainable=" + costly}), HasSubstr("takes too many steps to match"));
}

TEST(Resolve, AllocatorConfiguration) {
  EXPECT_EQ(error_of({"allocator.configuration=roundup_power2_divisions:[256:1,>:4], max_split_size_mb:128"}),
            "no error");
  EXPECT_THAT(error_of({"allocator.configuration=expandable_segments"}), HasSubstr("is not KEY:VALUE"));
  EXPECT_THAT(resolved({"allocator.configuration=page_size:1g"})->notes,
              ElementsAre(HasSubstr("not applied")));
}

TEST(Resolve, AllContradictionsAreReportedTogether) {
  EXPECT_THAT(
      error_of({"hardware.gpus=8", "parallel.pipeline=3", "batch.global_batch=7", "optimizer.name=sgd-fused",
                "attention.implementation=flash_attention_2", "fsdp2.param_dtype=fp32"}),
      AllOf(HasSubstr("5 contradictions in the job"), HasSubstr("\n  5. ")));
}

TEST(Resolve, JobsMadeByHandAreCheckedToo) {
  Job job;
  job.parallel.tensor = 0;
  job.batch.sequence = -5;
  const auto result = resolve(job, llama(), {});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().to_text(), AllOf(HasSubstr("2 values of the job are out of range"),
                                              HasSubstr("key \"batch.sequence\": -5 is out of range")));
}

TEST(Resolve, ComputeCapability) {
  EXPECT_EQ(compute_capability_of("sm_90"), 90);
  EXPECT_EQ(compute_capability_of("sm_100a"), 100);
  EXPECT_EQ(compute_capability_of("gfx942"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll
