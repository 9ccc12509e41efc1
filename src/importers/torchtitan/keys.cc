#include "importers/torchtitan/keys.h"

#include <algorithm>

namespace plimsoll::torchtitan_keys {
namespace {

using K = KeyKind;

const std::vector<std::pair<std::string_view, std::string_view>> kDtypes = {
    {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}};
const std::vector<std::pair<std::string_view, std::string_view>> kOff = {{"false", "false"}};

const std::vector<KeyRow>& rows() {
  static const std::vector<KeyRow> all = {
      // ---- batch and loop ----
      {"training.local_batch_size", K::kField, "batch.micro_batch", {}, {}},
      {"training.batch_size", K::kField, "batch.micro_batch", {}, {}},
      {"training.global_batch_size", K::kField, "batch.global_batch", {}, "-1"},
      {"training.seq_len", K::kField, "batch.sequence", {}, {}},
      {"training.max_norm", K::kField, "loop.clip_max_norm", {}, {}},
      {"training.mixed_precision_param", K::kField, "fsdp2.param_dtype", kDtypes, {}},
      {"training.mixed_precision_reduce", K::kField, "fsdp2.reduce_dtype", kDtypes, {}},
      {"training.dtype", K::kField, "precision", kDtypes, {}},
      {"training.enable_cpu_offload", K::kField, "fsdp2.cpu_offload", {}, {}},
      {"validation.enable", K::kField, "loop.evaluation", {}, {}},
      {"checkpoint.enable", K::kField, "loop.save", {}, {}},
      {"checkpoint.enable_checkpoint", K::kField, "loop.save", {}, {}},
      // ---- mesh ----
      {"parallelism.fsdp_reshard_after_forward", K::kField, "torchtitan.reshard_after_forward", {}, {}},
      {"parallelism.data_parallel_replicate_degree", K::kGroup, {}, {}, {}},
      {"parallelism.data_parallel_shard_degree", K::kGroup, {}, {}, {}},
      {"parallelism.tensor_parallel_degree", K::kField, "parallel.tensor", {}, {}},
      {"parallelism.pipeline_parallel_degree", K::kField, "parallel.pipeline", {}, {}},
      {"parallelism.context_parallel_degree", K::kField, "parallel.context", {}, {}},
      {"parallelism.expert_parallel_degree", K::kField, "parallel.expert", {}, {}},
      {"parallelism.expert_tensor_parallel_degree", K::kOnly, {}, {{"1", ""}}, {}},
      {"parallelism.disable_loss_parallel", K::kHarmless, {}, {}, {}},
      {"parallelism.enable_compiled_autograd", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_schedule", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_schedule_csv", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_microbatch_size", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_microbatches", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_split_points", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_layers_per_stage", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_first_stage_less_layers", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_last_stage_less_layers", K::kHarmless, {}, {}, {}},
      {"parallelism.pipeline_parallel_expert_parallel_overlap", K::kHarmless, {}, {}, {}},
      {"parallelism.module_fqns_per_model_part", K::kHarmless, {}, {}, {}},
      {"parallelism.context_parallel_rotate_method", K::kHarmless, {}, {}, {}},
      {"parallelism.context_parallel_load_balancer", K::kHarmless, {}, {}, {}},
      {"training.data_parallel_replicate_degree", K::kGroup, {}, {}, {}},
      {"training.data_parallel_shard_degree", K::kGroup, {}, {}, {}},
      {"training.tensor_parallel_degree", K::kField, "parallel.tensor", {}, {}},
      {"experimental.pipeline_parallel_degree", K::kField, "parallel.pipeline", {}, {}},
      {"experimental.context_parallel_degree", K::kField, "parallel.context", {}, {}},
      {"experimental.enable_async_tensor_parallel", K::kOnly, {}, kOff, {}},
      {"parallelism.enable_async_tensor_parallel", K::kOnly, {}, kOff, {}},
      {"experimental.custom_args_module", K::kOnly, {}, {{"", ""}}, {}},
      {"experimental.custom_import", K::kOnly, {}, {{"", ""}}, {}},
      {"experimental.enable_compiled_autograd", K::kHarmless, {}, {}, {}},
      {"experimental.pipeline_parallel_schedule", K::kHarmless, {}, {}, {}},
      {"experimental.pipeline_parallel_microbatches", K::kHarmless, {}, {}, {}},
      {"experimental.pipeline_parallel_split_points", K::kHarmless, {}, {}, {}},
      {"experimental.context_parallel_rotate_method", K::kHarmless, {}, {}, {}},
      // ---- model and optimizer ----
      {"model.name", K::kGroup, {}, {}, {}},
      {"model.flavor", K::kGroup, {}, {}, {}},
      {"model.converters", K::kGroup, {}, {}, {}},
      {"model.norm_type", K::kOnly, {}, {{"rmsnorm", ""}, {"fused_rmsnorm", ""}}, {}},
      {"model.tokenizer_path", K::kHarmless, {}, {}, {}},
      {"model.hf_assets_path", K::kHarmless, {}, {}, {}},
      {"model.print_after_conversion", K::kHarmless, {}, {}, {}},
      {"optimizer.name", K::kOnly, {}, {{"AdamW", ""}}, {}},
      {"optimizer.implementation",
       K::kField,
       "optimizer.name",
       {{"fused", "adamw-fused"}, {"foreach", "adamw"}, {"for-loop", "adamw-loop"}},
       {}},
      {"optimizer.fused", K::kField, "optimizer.name", {{"true", "adamw-fused"}, {"false", "adamw"}}, {}},
      {"optimizer.early_step_in_backward", K::kOnly, {}, kOff, {}},
      {"optimizer.lr", K::kHarmless, {}, {}, {}},
      {"optimizer.beta1", K::kHarmless, {}, {}, {}},
      {"optimizer.beta2", K::kHarmless, {}, {}, {}},
      {"optimizer.eps", K::kHarmless, {}, {}, {}},
      {"optimizer.weight_decay", K::kHarmless, {}, {}, {}},
      // ---- recompute and compilation ----
      {"activation_checkpoint.mode", K::kGroup, {}, {}, {}},
      {"activation_checkpoint.selective_ac_option", K::kGroup, {}, {}, {}},
      {"activation_checkpoint.early_stop", K::kOnly, {}, kOff, {}},
      {"activation_checkpoint.preserve_rng_state", K::kHarmless, {}, {}, {}},
      {"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
       K::kOnly,
       {},
       {{"moe.router.gate", ""}, {"", ""}},
       {}},
      {"activation_checkpoint.determinism_check", K::kHarmless, {}, {}, {}},
      {"activation_checkpoint.debug", K::kHarmless, {}, {}, {}},
      {"activation_checkpoint.memory_budget", K::kHarmless, {}, {}, {}},
      {"activation_checkpoint.visualize_memory_budget_pareto", K::kHarmless, {}, {}, {}},
      {"compile.enable", K::kGroup, {}, {}, {}},
      {"compile.components", K::kGroup, {}, {}, {}},
      {"compile.backend", K::kOnly, {}, {{"inductor", ""}}, {}},
      {"training.compile", K::kGroup, {}, {}, {}},
      {"float8.enable_float8_linear", K::kOnly, {}, kOff, {}},
      {"float8.recipe_name", K::kGroup, {}, {}, {}},
      {"float8.enable_fsdp_float8_all_gather", K::kGroup, {}, {}, {}},
      {"quantize.linear.float8.recipe_name", K::kGroup, {}, {}, {}},
      {"quantize.linear.float8.enable_fsdp_float8_all_gather", K::kGroup, {}, {}, {}},
      {"float8.", K::kHarmless, {}, {}, {}},  // only with a converter of model.converters
      {"mx.", K::kHarmless, {}, {}, {}},
      {"quantize.", K::kHarmless, {}, {}, {}},
      // ---- the rest ----
      {"training.steps", K::kHarmless, {}, {}, {}},
      {"training.dataset", K::kHarmless, {}, {}, {}},
      {"training.dataset_path", K::kHarmless, {}, {}, {}},
      {"training.warmup_steps", K::kHarmless, {}, {}, {}},
      {"training.seed", K::kHarmless, {}, {}, {}},
      {"training.deterministic", K::kHarmless, {}, {}, {}},
      {"training.gc_freq", K::kHarmless, {}, {}, {}},
      {"training.gc_debug", K::kHarmless, {}, {}, {}},
      {"fault_tolerance.enable", K::kOnly, {}, kOff, {}},
      {"fault_tolerance.", K::kHarmless, {}, {}, {}},
      {"memory_estimation.", K::kHarmless, {}, {}, {}},
      {"job.", K::kHarmless, {}, {}, {}},
      {"profiling.", K::kHarmless, {}, {}, {}},
      {"metrics.", K::kHarmless, {}, {}, {}},
      {"lr_scheduler.", K::kHarmless, {}, {}, {}},
      {"checkpoint.", K::kHarmless, {}, {}, {}},
      {"validation.", K::kHarmless, {}, {}, {}},
      {"comm.", K::kHarmless, {}, {}, {}},
      {"debug.", K::kHarmless, {}, {}, {}},
  };
  return all;
}

const std::vector<FlavorRow>& flavors() {
  static const std::vector<FlavorRow> all = {
      {"llama2", "7B", {"model.name=llama-2-7b"}},
      {"llama2", "13B", {"model.name=llama-2-13b"}},
      {"llama2", "70B", {"model.name=llama-2-70b"}},
      {"llama3",
       "debugmodel",
       {"model.name=llama-3.1-8b", "model.overrides.hidden_size=256", "model.overrides.num_hidden_layers=6",
        "model.overrides.num_attention_heads=16", "model.overrides.num_key_value_heads=16",
        "model.overrides.intermediate_size=768", "model.overrides.vocab_size=2048"}},
      {"llama3", "8B", {"model.name=llama-3.1-8b"}},
      {"llama3", "70B", {"model.name=llama-3.1-70b"}},
      {"llama3", "405B", {"model.name=llama-3.1-405b"}},
      {"llama4", "17bx16e", {"model.name=llama-4-scout"}},
      {"llama4", "17bx128e", {"model.name=llama-4-maverick"}},
      {"qwen3", "0.6B", {"model.name=qwen3-0.6b"}},
      {"qwen3", "1.7B", {"model.name=qwen3-1.7b"}},
      {"qwen3", "4B", {"model.name=qwen3-4b"}},
      {"qwen3", "8B", {"model.name=qwen3-8b"}},
      {"qwen3", "14B", {"model.name=qwen3-14b"}},
      {"qwen3", "32B", {"model.name=qwen3-32b"}},
      {"deepseek_v3", "671B", {"model.name=deepseek-v3"}},
  };
  return all;
}

}  // namespace

std::span<const KeyRow> key_rows() { return rows(); }

const KeyRow* find_key(std::string_view key) {
  const auto is_row_of = [&](const KeyRow& row) {
    return row.key.ends_with('.') ? key.starts_with(row.key) : key == row.key;
  };
  const auto found = std::ranges::find_if(rows(), is_row_of);
  return found == rows().end() ? nullptr : &*found;
}

std::span<const FlavorRow> flavor_rows() { return flavors(); }

}  // namespace plimsoll::torchtitan_keys
