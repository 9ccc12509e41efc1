// Checks of what the blocks are computed with: precision, attention, experts (strategy/case.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "strategy/case.h"
#include "strategy/names.h"

namespace plimsoll {
namespace {

constexpr int64_t kFlashMaxHeadDim = 256;

int64_t largest_head_dim(const Architecture& architecture) {
  int64_t largest = 0;
  for (const Layer& layer : architecture.layers)
    largest = std::max({largest, layer.attention.head_dim, layer.attention.value_head_dim});
  return largest;
}

void check_implementation(const Case& c, Errors& errors) {
  const std::string& family = c.architecture.family;
  if (has_attention(family, c.resolved.attention)) return;
  std::vector<std::string> others;
  for (const std::string& name : written_names<AttentionImplementation>())
    if (has_attention(family, *from_name<AttentionImplementation>(name))) others.push_back(name);
  add(errors, {.field = "attention.implementation",
               .message = fmt::format("{} has no {} in Transformers", family, name_of(c.resolved.attention)),
               .expected = fmt::format("{}", fmt::join(others, " or "))});
}

// What every flash kernel needs; `choice` is the field and the value that asked for one.
void check_flash_kernel(const Case& c, std::string_view field, std::string_view choice, Errors& errors) {
  const DType dtype = c.resolved.matmul_dtype();
  if (!is_half(dtype))
    add(errors,
        {.field = std::string(field),
         .message = fmt::format("{} computes in bf16 and fp16 only, this job's attention in {}", choice,
                                name_of(dtype)),
         .expected = "precision bf16, fp16, amp-bf16 or amp-fp16, or fsdp2.param_dtype bf16 or fp16"});
  const int64_t head_dim = largest_head_dim(c.architecture);
  if (head_dim > kFlashMaxHeadDim)
    add(errors, {.field = std::string(field),
                 .message = fmt::format("{} has no kernel for head_dim {}", choice, head_dim),
                 .expected = fmt::format("a head_dim of at most {}", kFlashMaxHeadDim)});
  if (c.gpu.compute_capability.value_or(kAmpere) < kAmpere)
    add(errors, {.field = std::string(field),
                 .message = fmt::format("{} does not run on {} (sm_{})", choice, c.gpu.name,
                                        *c.gpu.compute_capability),
                 .expected = fmt::format("sm_{} or later", kAmpere)});
}

void check_attention(const Case& c, Errors& errors) {
  check_implementation(c, errors);
  if (c.resolved.attention == AttentionImplementation::kFlashAttention2)
    check_flash_kernel(c, "attention.implementation", "flash_attention_2", errors);
  if (c.resolved.attention != AttentionImplementation::kSdpa) return;
  const SdpaBackend backend = c.resolved.sdpa_backend;
  if (backend == SdpaBackend::kFlash || backend == SdpaBackend::kCudnn)
    check_flash_kernel(c, "attention.sdpa_backend", fmt::format("sdpa's {} backend", name_of(backend)),
                       errors);
}

// What the configuration asks of routers and no recipe has.
void check_mixtures(const Case& c, Errors& errors) {
  const auto refuse_if = [&](bool Moe::*flag, std::string_view key, std::string_view what) {
    const auto has_it = [&](const Layer& layer) { return layer.moe && (*layer.moe).*flag; };
    if (std::ranges::any_of(c.architecture.layers, has_it))
      add(errors, {.field = "model",
                   .message = fmt::format("{}: {} is not supported yet", key, what),
                   .expected = fmt::format("a configuration without {}", key)});
  };
  refuse_if(&Moe::has_jitter, "router_jitter_noise", "noise on the experts' input");
  refuse_if(&Moe::has_balance_loss, "output_router_logits", "the load balancing loss");
  const auto& parameters = c.architecture.parameters;
  const bool is_mixed = is_half(parameter_dtype(c.resolved.precision)) &&
                        std::ranges::any_of(parameters, &ParameterTensor::is_float32);
  if (is_mixed && c.resolved.engine == DataParallelEngine::kFsdp2)
    add(errors, {.field = "precision",
                 .message = "FSDP2 wants parameters of one dtype, but the routers' stay fp32",
                 .expected = "fp32 with fsdp2.param_dtype = bf16"});
}

void check_experts(const Case& c, Errors& errors) {
  if (!has_experts(c.architecture)) return;
  if (c.resolved.experts == ExpertsImplementation::kEager)
    add(errors, {.field = "experts.implementation",
                 .message = "eager is not supported: its sizes depend on the routing",
                 .expected = "grouped_mm or batched_mm"});
  check_mixtures(c, errors);
  const bool has_grouped_mm = c.architecture.family != "llama4_text" &&  // computes all experts by bmm
                              c.resolved.experts == ExpertsImplementation::kGroupedMm;
  if (has_grouped_mm && autocast_dtype(c.resolved.precision))
    add(errors,
        {.field = "precision",
         .message = fmt::format("{} with experts is not supported: grouped_mm is not an autocast op and "
                                "would get fp32",
                                name_of(c.resolved.precision)),
         .expected = "bf16, or fp32 with parallel.engine = fsdp2 and fsdp2.param_dtype = bf16"});
}

}  // namespace

void check_blocks(const Case& c, Errors& errors) {
  check_attention(c, errors);
  check_experts(c, errors);
}

}  // namespace plimsoll
