#include "strategy/usage.h"

#include "strategy/resolve.h"

namespace plimsoll {
namespace {

struct Rule {
  std::string_view path;  // of a field, or with a final dot of a section
  bool (*is_used)(const ResolvedJob&, const Architecture&);
  std::string_view needs;
  bool is_harmless = false;
};

constexpr Rule kRules[] = {
    {.path = "ddp.",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.engine == DataParallelEngine::kDdp; },
     .needs = "parallel.engine = ddp"},
    {.path = "fsdp2.",
     .is_used = [](const ResolvedJob& r,
                   const Architecture&) { return r.engine == DataParallelEngine::kFsdp2; },
     .needs = "parallel.engine = fsdp2"},
    {.path = "fsdp2.pin_memory",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.fsdp2.cpu_offload; },
     .needs = "fsdp2.cpu_offload = true"},
    {.path = "fsdp2.root_reshard_after_forward",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.fsdp2.reshard_after_forward; },
     .needs = "fsdp2.reshard_after_forward = true"},
    {.path = "fsdp2.cast_forward_inputs",
     .is_used = [](const ResolvedJob& r, const Architecture&) { return r.fsdp2.param_dtype.has_value(); },
     .needs = "a dtype as fsdp2.param_dtype",
     .is_harmless = true},
    {.path = "experts.",
     .is_used = [](const ResolvedJob&, const Architecture& a) { return has_experts(a); },
     .needs = "a model with experts"},
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

}  // namespace plimsoll
