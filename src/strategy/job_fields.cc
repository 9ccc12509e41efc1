// The table of all fields of a job file. A new field is one entry here, beside its member in strategy/job.h.
#include <algorithm>
#include <iterator>

#include "hardware/name_match.h"
#include "model/config_reader.h"
#include "strategy/field.h"
#include "strategy/field_builders.h"
#include "strategy/limits.h"
#include "strategy/offload_fields.h"
#include "strategy/routing_fields.h"
#include "strategy/torchtitan_fields.h"
#include "strategy/train_fields.h"

namespace plimsoll {
namespace {

using namespace field_builders;
using Fields = std::vector<Field>;

constexpr std::string_view kTorchDefault = "PyTorch's default";
constexpr std::string_view kLoopDefault = "the plain training loop";

Fields model_fields() {
  return {
      words({.path = "model.name", .help = "a preset (`plimsoll models`), a config.json or its folder"},
            at(&Job::model, &ModelChoice::name)),
      integer({.path = "model.layers",
               .help = "use only this many layers of the configuration",
               .default_text = "all"},
              {1, kMaxLayers}, at(&Job::model, &ModelChoice::layers)),
      choice<TaskChoice>(
          {.path = "model.task",
           .help = "what is on top of the blocks; automatic: masked-lm for bert, else causal-lm"},
          at(&Job::model, &ModelChoice::task)),
  };
}

Fields hardware_fields() {
  return {
      words({.path = "hardware.gpu",
             .help = "a GPU of the catalog (`plimsoll gpus`) or a file that describes one"},
            at(&Job::hardware, &HardwareChoice::gpu)),
      integer({.path = "hardware.gpus", .help = "GPUs of the whole job", .reason = "the smallest job"},
              {1, kMaxRanks}, at(&Job::hardware, &HardwareChoice::gpus)),
      integer({.path = "hardware.gpus_per_node",
               .help = "GPUs that share a host and its memory",
               .default_text = "as many as the GPU's usual node holds, at most hardware.gpus",
               .reason = "the GPU's usual node"},
              {1, kMaxRanks}, at(&Job::hardware, &HardwareChoice::gpus_per_node)),
  };
}

Fields framework_fields() {
  return {
      choice<Framework>({.path = "framework",
                         .help = "whose code runs the step: pytorch, torchtitan, or native (`plimsoll "
                                 "train`); the others are refused yet",
                         .reason = "Hugging Face models in plain PyTorch"},
                        at(&Job::framework)),
      choice<Precision>(
          {.path = "precision",
           .help = "dtype of the parameters; amp-*: fp32 parameters under torch.autocast (amp-fp16 "
                   "with a GradScaler); bf16-mixed: bf16 with fp32 master weights (native); under fsdp2 the "
                   "dtype of the shards",
           .default_text = "the dtype that the configuration names, else fp32; fp32 with fsdp2; bf16-mixed "
                           "with framework native",
           .reason = "a model is loaded in the dtype it is published in"},
          at(&Job::precision)),
  };
}

Fields parallel_fields() {
  return {
      choice<DataParallelEngine>(
          {.path = "parallel.engine",
           .help = "how data parallelism is run",
           .default_text = "none on one data-parallel rank, fsdp2 on more; zero with framework "
                           "native",
           .reason = "shards everything over all GPUs"},
          at(&Job::engine)),
      integer({.path = "parallel.data",
               .unit = "ranks",
               .help = "data-parallel ranks",
               .default_text = "what the other degrees leave of hardware.gpus",
               .reason = "what the other degrees leave"},
              {1, kMaxRanks}, at(&Job::parallel, &ParallelChoice::data)),
      integer({.path = "parallel.tensor",
               .unit = "ranks",
               .help = "tensor parallelism of the blocks' linears",
               .reason = kTorchDefault},
              {1, kMaxRanks}, at(&Job::parallel, &ParallelChoice::tensor)),
      integer({.path = "parallel.pipeline",
               .unit = "ranks",
               .help = "pipeline stages; only 1 for now",
               .reason = kTorchDefault},
              {1, kMaxRanks}, at(&Job::parallel, &ParallelChoice::pipeline)),
      integer({.path = "parallel.context",
               .unit = "ranks",
               .help = "context parallelism; only 1 for now",
               .reason = kTorchDefault},
              {1, kMaxRanks}, at(&Job::parallel, &ParallelChoice::context)),
      integer({.path = "parallel.expert",
               .unit = "ranks",
               .help = "expert parallelism; only 1 for now",
               .reason = kTorchDefault},
              {1, kMaxRanks}, at(&Job::parallel, &ParallelChoice::expert)),
      boolean({.path = "parallel.sequence",
               .help = "sequence parallelism inside the tensor-parallel group; only false for now",
               .reason = kTorchDefault},
              at(&Job::parallel, &ParallelChoice::sequence)),
  };
}

Fields ddp_fields() {
  return {
      number({.path = "ddp.bucket_cap_mb",
              .unit = "MiB",
              .help = "gradient bucket; the first one has 1 MiB",
              .reason = kTorchDefault},
             {.lowest = 0, .highest = kMaxBucketMebibytes, .is_lowest_excluded = true},
             at(&Job::ddp, &DdpSettings::bucket_cap_mb)),
      boolean({.path = "ddp.gradient_as_bucket_view",
               .help = "gradients are views of the buckets",
               .reason = kTorchDefault},
              at(&Job::ddp, &DdpSettings::gradient_as_bucket_view)),
      boolean({.path = "ddp.broadcast_buffers",
               .help = "buffers are broadcast before each forward",
               .reason = kTorchDefault},
              at(&Job::ddp, &DdpSettings::broadcast_buffers)),
      boolean({.path = "ddp.static_graph",
               .help = "the graph is the same in each iteration; only false for now",
               .reason = kTorchDefault},
              at(&Job::ddp, &DdpSettings::static_graph)),
      boolean({.path = "ddp.find_unused_parameters",
               .help = "looks for parameters without gradient: outputs are cloned, buckets stay",
               .reason = kTorchDefault},
              at(&Job::ddp, &DdpSettings::find_unused_parameters)),
  };
}

// A dtype of MixedPrecisionPolicy; "none" keeps the tensors' own.
Field policy_dtype(FieldText text, std::optional<DType> Fsdp2Settings::*member) {
  return named(
      text, {"bf16", "fp16", "fp32", "none"}, at(&Job::fsdp2, member),
      [](std::string_view given) -> std::optional<std::optional<DType>> {
        const std::string name = normalized_name(given);
        if (name == "none") return std::optional<DType>{};
        const auto dtype = dtype_from_name(name);
        if (!dtype || !(is_half(*dtype) || *dtype == DType::kFloat32)) return std::nullopt;
        return dtype;
      },
      [](const std::optional<DType>& dtype) { return dtype ? name_of(*dtype) : std::string_view("none"); });
}

Fields fsdp2_precision_fields() {
  return {
      policy_dtype({.path = "fsdp2.param_dtype",
                    .help = "MixedPrecisionPolicy: gathered and computed in",
                    .reason = "bf16 compute over fp32 shards"},
                   &Fsdp2Settings::param_dtype),
      policy_dtype({.path = "fsdp2.reduce_dtype",
                    .help = "MixedPrecisionPolicy: gradients are reduced in",
                    .reason = "gradients are summed in fp32"},
                   &Fsdp2Settings::reduce_dtype),
      policy_dtype({.path = "fsdp2.output_dtype",
                    .help = "MixedPrecisionPolicy: outputs are cast to; only the dtype they are computed in",
                    .reason = kTorchDefault},
                   &Fsdp2Settings::output_dtype),
      boolean({.path = "fsdp2.cast_forward_inputs",
               .help = "MixedPrecisionPolicy: inputs are cast to param_dtype",
               .reason = kTorchDefault},
              at(&Job::fsdp2, &Fsdp2Settings::cast_forward_inputs)),
  };
}

Fields fsdp2_sharding_fields() {
  return {
      boolean({.path = "fsdp2.reshard_after_forward",
               .help = "blocks are freed after their forward",
               .reason = kTorchDefault},
              at(&Job::fsdp2, &Fsdp2Settings::reshard_after_forward)),
      boolean({.path = "fsdp2.root_reshard_after_forward",
               .help = "the same for the root (embedding, head, last norm)",
               .default_text = "false",
               .reason = "PyTorch keeps the root gathered"},
              at(&Job::fsdp2, &Fsdp2Settings::root_reshard_after_forward)),
      choice<ModelLoad>(
          {.path = "fsdp2.load",
           .help = "meta: built on the meta device, only the shards get memory; device: the whole model "
                   "is on every GPU before it is sharded",
           .reason = "as PyTorch's guide to fully_shard does it"},
          at(&Job::fsdp2, &Fsdp2Settings::load)),
      boolean({.path = "fsdp2.split_head",
               .help = "embedding and head are sharded as units of their own",
               .reason = "fully_shard on blocks and root only"},
              at(&Job::fsdp2, &Fsdp2Settings::split_head)),
      integer({.path = "fsdp2.replicate",
               .unit = "ranks",
               .help = "HSDP: copies of the shards, mesh (replicate, data / replicate)",
               .reason = "shards over all data-parallel ranks"},
              {1, kMaxRanks}, at(&Job::fsdp2, &Fsdp2Settings::replicate)),
      boolean({.path = "fsdp2.cpu_offload",
               .help = "shards, gradients and optimizer states on the host",
               .reason = kTorchDefault},
              at(&Job::fsdp2, &Fsdp2Settings::cpu_offload)),
      boolean(
          {.path = "fsdp2.pin_memory", .help = "offloaded shards are page-locked", .reason = kTorchDefault},
          at(&Job::fsdp2, &Fsdp2Settings::pin_memory)),
  };
}

Fields zero_fields() {
  return {
      integer({.path = "zero.stage",
               .help = "what the data-parallel ranks divide: 0 nothing, 1 optimizer states, 2 gradients too, "
                       "3 parameters too",
               .reason = "shards everything over all ranks"},
              {0, 3}, at(&Job::zero, &ZeroSettings::stage)),
  };
}

Fields batch_fields() {
  return {
      integer({.path = "batch.sequence",
               .unit = "tokens",
               .help = "length of a sequence",
               .default_text = "4096, or the model's limit if that is lower",
               .reason = "a usual length"},
              {1, kMaxSequence}, at(&Job::batch, &BatchChoice::sequence)),
      integer({.path = "batch.micro_batch",
               .unit = "sequences",
               .help = "per rank and forward",
               .default_text = "1, or what global_batch and accumulation leave",
               .reason = "the smallest"},
              {1, kMaxMicroBatch}, at(&Job::batch, &BatchChoice::micro_batch)),
      integer({.path = "batch.accumulation",
               .unit = "micro-batches",
               .help = "per optimizer step",
               .default_text = "1, or what global_batch and micro_batch leave",
               .reason = "no accumulation"},
              {1, kMaxAccumulation}, at(&Job::batch, &BatchChoice::accumulation)),
      integer({.path = "batch.global_batch",
               .unit = "sequences",
               .help = "per optimizer step, all ranks together",
               .default_text = "micro_batch x accumulation x data-parallel ranks",
               .reason = "follows"},
              {1, kMaxGlobalBatch}, at(&Job::batch, &BatchChoice::global_batch)),
  };
}

// A name says nothing of the kept ops, so these stay when the mode changes.
Field recompute_mode() {
  Field field = named(
      {.path = "recompute.mode",
       .help =
           "activation checkpointing: every block (full, non-reentrant), blocks 0, N, 2N ... (every-N), or "
           "selective: keeps the outputs of recompute.kept_ops",
       .reason = "off unless asked for"},
      recompute_names(), at(&Job::recompute), recompute_from_name,
      [](const Recompute& recompute) { return name_of(recompute); });
  const auto keeping_ops = [](Job& job, auto change) {
    auto kept_ops = std::move(job.recompute.kept_ops);
    auto done = change();
    job.recompute.kept_ops = std::move(kept_ops);
    return done;
  };
  field.set = [keeping_ops, set = field.set](Job& job, const FieldValue& value) {
    return keeping_ops(job, [&] { return set(job, value); });
  };
  field.reset = [keeping_ops, reset = field.reset](Job& job) {
    keeping_ops(job, [&] {
      reset(job);
      return true;
    });
  };
  return field;
}

Fields step_fields() {
  return {
      named(
          {.path = "optimizer.name",
           .help = "adamw, sgd: torch.optim's (foreach, -fused, -loop); adafactor: Transformers'; adam8bit: "
                   "bitsandbytes'; none: no step. With fsdp2: adamw, sgd, sgd-momentum, lion, none",
           .reason = "AdamW with foreach is PyTorch's default on a GPU"},
          optimizer_names(), at(&Job::optimizer), optimizer_from_name,
          [](const Optimizer& optimizer) { return name_of(optimizer); }),
      recompute_mode(),
      word_list(
          {.path = "recompute.kept_ops",
           .help = "with selective: ATen ops whose outputs are kept; sdpa means every fused attention kernel",
           .reason = "matrix products and attention are the dear ones"},
          at(&Job::recompute, &Recompute::kept_ops)),
  };
}

Fields block_fields() {
  return {
      choice<AttentionImplementation>({.path = "attention.implementation",
                                       .help = "attn_implementation of Transformers",
                                       .default_text = "sdpa, or eager where the model class has no sdpa",
                                       .reason = "Transformers' default for this model class"},
                                      at(&Job::attention, &AttentionChoice::implementation)),
      choice<SdpaBackend>(
          {.path = "attention.sdpa_backend",
           .help = "kernel of scaled_dot_product_attention; automatic: PyTorch's order, flash "
                   "first; cudnn-first: the order of newer cuDNN; the others allow that one only",
           .reason = "PyTorch's order"},
          at(&Job::attention, &AttentionChoice::sdpa_backend)),
      choice<ExpertsImplementation>(
          {.path = "experts.implementation",
           .help = "experts_implementation of Transformers: grouped_mm or batched_mm",
           .default_text = "grouped_mm",
           .reason = "Transformers' default"},
          at(&Job::experts)),
      choice<LossKind>(
          {.path = "loss.path",
           .help = "full: all logits and their fp32 copy, as Transformers does; chunked: head and "
                   "loss in loss.chunks pieces; fused-linear: Liger's kernel",
           .reason = "ForCausalLMLoss of Transformers"},
          at(&Job::loss, &Loss::kind)),
      integer({.path = "loss.chunks",
               .unit = "pieces",
               .help = "with chunked: pieces of the micro-batch's tokens",
               .reason = "a usual number"},
              {1, kMaxLossChunks}, at(&Job::loss, &Loss::chunks)),
  };
}

Fields loop_fields() {
  return {
      number({.path = "loop.clip_max_norm",
              .help = "clip_grad_norm_ before the step",
              .default_text = "none",
              .reason = kLoopDefault},
             {.lowest = 0, .highest = kMaxClipNorm, .is_lowest_excluded = true},
             at(&Job::loop, &TrainingLoop::clip_max_norm)),
      choice<ZeroGrad>({.path = "loop.zero_grad",
                        .help = "after the step: gradients are freed, filled, or left",
                        .reason = kTorchDefault},
                       at(&Job::loop, &TrainingLoop::zero_grad)),
      boolean({.path = "loop.no_sync",
               .help = "no gradient communication before the last micro-batch",
               .reason = kTorchDefault},
              at(&Job::loop, &TrainingLoop::no_sync)),
      boolean({.path = "loop.attention_mask",
               .help = "a mask of ones (int64) is given to the model",
               .reason = kLoopDefault},
              at(&Job::loop, &TrainingLoop::has_attention_mask)),
      choice<UseCache>({.path = "loop.use_cache",
                        .help = "use_cache given to the model; config: not given, the configuration decides",
                        .reason = "training needs no keys and values of the past"},
                       at(&Job::loop, &TrainingLoop::use_cache)),
      boolean({.path = "loop.hold_outputs",
               .help = "the output (logits) stays in scope until the next forward",
               .reason = kLoopDefault},
              at(&Job::loop, &TrainingLoop::hold_outputs)),
  };
}

Fields training_fields() {
  return {
      pattern({.path = "loop.trainable",
               .help = "regular expression: only parameters whose name has a match are trained",
               .default_text = "all",
               .reason = "every parameter is trained"},
              at(&Job::loop, &TrainingLoop::trainable)),
      boolean({.path = "loop.input_require_grads",
               .help = "enable_input_require_grads; always on with reentrant recompute",
               .reason = kLoopDefault},
              at(&Job::loop, &TrainingLoop::input_require_grads)),
      boolean({.path = "loop.evaluation",
               .help = "one forward with labels under no_grad is a phase of the job",
               .reason = "to see that phase too"},
              at(&Job::loop, &TrainingLoop::has_evaluation)),
      boolean({.path = "loop.save",
               .help = "writing a checkpoint is a phase of the job",
               .reason = "to see that phase too"},
              at(&Job::loop, &TrainingLoop::has_save)),
      words({.path = "allocator.configuration",
             .help = "PYTORCH_ALLOC_CONF as the environment would hold it",
             .reason = kTorchDefault},
            at(&Job::allocator, &AllocatorChoice::configuration)),
  };
}

Fields all_fields() {
  Fields all;
  // The fields outside the sections first, since TOML wants them there.
  for (const auto& part :
       {framework_fields, model_fields, hardware_fields, parallel_fields, ddp_fields, fsdp2_precision_fields,
        fsdp2_sharding_fields, zero_fields, offload_fields, torchtitan_fields, routing_fields, batch_fields,
        step_fields, block_fields, loop_fields, training_fields, train_fields, data_fields}) {
    Fields fields = part();
    std::ranges::move(fields, std::back_inserter(all));
  }
  return all;
}

}  // namespace

const std::vector<Field>& job_fields() {
  static const std::vector<Field> fields = all_fields();
  return fields;
}

}  // namespace plimsoll
