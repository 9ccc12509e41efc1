#include "strategy/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "strategy/field.h"
#include "strategy/names.h"
#include "strategy/resolve.h"
#include "strategy/trainable.h"

namespace plimsoll {
namespace {

struct Rule {
  std::string_view path;  // of a field, or with a final dot of a section
  bool (*is_used)(const ResolvedJob&, const Architecture&);
  std::string_view needs;
  bool is_harmless = false;
};

// Outputs of a trained embedding have a gradient anyway; gradient_checkpointing_enable() asks for it too.
bool requires_input_grads(const ResolvedJob& r, const Architecture& a) {
  if (r.recompute.kind == RecomputeKind::kFull || r.recompute.kind == RecomputeKind::kEveryNth) return false;
  if (!r.loop.trainable) return false;
  const auto trained = trainable_parameters(*r.loop.trainable, a);
  return trained && !trained->empty() && !trained->front();
}

bool is_no_torchtitan(const ResolvedJob& r, const Architecture&) {
  return r.framework != Framework::kTorchtitan;
}
constexpr std::string_view kOtherThanTorchtitan =
    "another framework than torchtitan, whose code decides this";

constexpr Rule kRules[] = {
    {.path = "torchtitan.",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.framework == Framework::kTorchtitan; },
     .needs = "framework = torchtitan"},
    {.path = "routing.",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.framework == Framework::kMegatron; },
     .needs = "a job of Megatron-LM (--from)"},
    {.path = "torchtitan.float8_all_gather",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.torchtitan.float8 == Float8Recipe::kTensorwise; },
     .needs = "torchtitan.float8 = tensorwise"},
    {.path = "torchtitan.reshard_after_forward",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.engine == DataParallelEngine::kFsdp2; },
     .needs = "parallel.engine = fsdp2"},
    {.path = "fsdp2.reshard_after_forward",
     .is_used = is_no_torchtitan,
     .needs = "another framework: torchtitan has torchtitan.reshard_after_forward"},
    {.path = "fsdp2.root_reshard_after_forward", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "fsdp2.split_head", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "fsdp2.output_dtype", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "fsdp2.load", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "loop.zero_grad", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "loop.no_sync", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "loop.attention_mask", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "loop.use_cache", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "loop.hold_outputs", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "loop.input_require_grads", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "loop.trainable", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "recompute.kept_ops", .is_used = is_no_torchtitan, .needs = kOtherThanTorchtitan},
    {.path = "ddp.",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.engine == DataParallelEngine::kDdp; },
     .needs = "parallel.engine = ddp"},
    {.path = "fsdp2.",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.engine == DataParallelEngine::kFsdp2; },
     .needs = "parallel.engine = fsdp2"},
    {.path = "train.",
     .is_used = [](const ResolvedJob&, const Architecture&) { return false; },
     .needs = "`plimsoll train`: no byte of an estimate depends on it",
     .is_harmless = true},
    {.path = "data.",
     .is_used = [](const ResolvedJob&, const Architecture&) { return false; },
     .needs = "`plimsoll train`: no byte of an estimate depends on it",
     .is_harmless = true},
    {.path = "zero.",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.engine == DataParallelEngine::kZero; },
     .needs = "parallel.engine = zero"},
    {.path = "offload.",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.framework == Framework::kNative; },
     .needs = "framework = native"},
    {.path = "offload.min_offload_size",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.offload.activations != OffloadTarget::kNone; },
     .needs = "offload.activations = host"},
    {.path = "offload.pin_memory",
     .is_used =
         [](const ResolvedJob& r, const Architecture&) {
           return r.offload.activations != OffloadTarget::kNone ||
                  r.offload.optimizer != OffloadTarget::kNone;
         },
     .needs = "offload.activations or offload.optimizer"},
    {.path = "offload.directory",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.offload.optimizer == OffloadTarget::kDisk; },
     .needs = "offload.optimizer = disk",
     .is_harmless = true},
    {.path = "fsdp2.pin_memory",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.fsdp2.cpu_offload; },
     .needs = "fsdp2.cpu_offload = true"},
    {.path = "fsdp2.root_reshard_after_forward",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.fsdp2.reshard_after_forward; },
     .needs = "fsdp2.reshard_after_forward = true"},
    // Token ids are integers, and blocks hand on what they were given.
    {.path = "fsdp2.cast_forward_inputs",
     .is_used = [](const ResolvedJob&, const Architecture&) { return false; },
     .needs = "inputs of another dtype than fsdp2.param_dtype, which no unit of the model gets",
     .is_harmless = true},
    {.path = "ddp.broadcast_buffers",
     .is_used =
         [](const ResolvedJob& r, const Architecture& a) {
           return r.engine == DataParallelEngine::kDdp && !a.buffers.empty();
         },
     .needs = "parallel.engine = ddp and a model with buffers",
     .is_harmless = true},
    {.path = "loop.input_require_grads",
     .is_used = requires_input_grads,
     .needs = "a frozen embedding and no recompute.mode that asks for it by itself",
     .is_harmless = true},
    {.path = "experts.",
     .is_used = [](const ResolvedJob&,
                   const Architecture& a) { return has_experts(a) && a.family != "llama4_text"; },
     .needs = "a model with experts that Transformers lets choose (llama4 computes all of them by bmm)"},
    {.path = "loss.chunks",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.loss.kind == LossKind::kChunked; },
     .needs = "loss.path = chunked"},
    {.path = "recompute.kept_ops",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.recompute.kind == RecomputeKind::kSelective; },
     .needs = "recompute.mode = selective"},
    {.path = "attention.sdpa_backend",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.attention == AttentionImplementation::kSdpa; },
     .needs = "attention.implementation = sdpa"},
    {.path = "loop.no_sync",
     .is_used =
         [](const ResolvedJob& r, const Architecture&) {
           return r.engine != DataParallelEngine::kNone && r.batch.accumulation > 1;
         },
     .needs = "data parallelism and batch.accumulation > 1",
     .is_harmless = true},
    {.path = "loop.clip_max_norm",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.optimizer.kind != OptimizerKind::kNone; },
     .needs = "an optimizer step (optimizer.name is none)"},
    {.path = "loop.use_cache",
     .is_used = [](const ResolvedJob&, const Architecture& a) { return a.task == Task::kCausalLm; },
     .needs = "a causal language model",
     .is_harmless = true},
};

using Kind = OptimizerKind;
struct Reader {
  std::string_view path;
  std::vector<Kind> optimizers;  // of framework native, that read it
};
const std::vector<Reader>& readers() {
  static const std::vector<Reader> all = {{"train.beta1", {Kind::kAdamW, Kind::kLion}},
                                          {"train.beta2", {Kind::kAdamW, Kind::kLion}},
                                          {"train.epsilon", {Kind::kAdamW}},
                                          {"train.momentum", {Kind::kSgdMomentum}},
                                          {"train.decay_rate", {Kind::kAdafactor}},
                                          {"train.clip_threshold", {Kind::kAdafactor}}};
  return all;
}

bool covers(const Rule& rule, std::string_view path) {
  return rule.path.ends_with('.') ? path.starts_with(rule.path) : path == rule.path;
}

}  // namespace

std::optional<Unused> why_unused(std::string_view path, const ResolvedJob& resolved,
                                 const Architecture& architecture) {
  for (const Rule& rule : kRules)
    if (covers(rule, path) && !rule.is_used(resolved, architecture))
      return Unused{.needs = std::string(rule.needs), .is_harmless = rule.is_harmless};
  return std::nullopt;
}

std::vector<std::string> notes_on_optimizer(const Job& job) {
  const Job fresh;
  std::vector<std::string> notes;
  for (const auto& [path, optimizers] : readers()) {
    const Field* const field = find_field(path);
    const bool is_given = job.given.contains(std::string(path)) || field->get(job) != field->get(fresh);
    if (!is_given || std::ranges::find(optimizers, job.optimizer.kind) != optimizers.end()) continue;
    std::vector<std::string> names;
    for (const OptimizerKind kind : optimizers) names.push_back(name_of(Optimizer{.kind = kind}));
    notes.push_back(fmt::format("{} has no effect with {}, it is read by {}", path, name_of(job.optimizer),
                                fmt::join(names, " and ")));
  }
  return notes;
}

std::vector<std::string> notes_on_training(const Job& job) {
  const RunSettings& run = job.run;
  std::vector<std::string> notes;
  if (run.warmup_steps > 0 && run.warmup_steps >= run.steps)
    notes.push_back(fmt::format(
        "train.warmup_steps {} are no fewer than train.steps {}: the run ends before the learning "
        "rate has warmed up",
        run.warmup_steps, run.steps));
  const auto unread = [&](bool is_unread, std::string_view path, std::string_view needs) {
    if (is_unread) notes.push_back(fmt::format("{} has no effect here: it needs {}", path, needs));
  };
  unread(run.final_learning_rate != 0 && run.schedule == LearningRateSchedule::kConstant,
         "train.final_learning_rate", "train.schedule = cosine");
  unread(!run.resume && run.checkpoints.empty(), "train.resume", "train.checkpoints");
  unread(!job.hardware.gpu.empty(), "hardware.gpu",
         "`plimsoll estimate`, since `plimsoll train` runs on this machine's CPU");
  unread(!job.allocator.configuration.empty(), "allocator.configuration",
         "`plimsoll estimate`, since `plimsoll train` runs on this machine's CPU");
  return notes;
}

}  // namespace plimsoll
