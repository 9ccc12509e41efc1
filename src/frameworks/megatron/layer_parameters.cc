#include "frameworks/megatron/layer_parameters.h"

#include <fmt/format.h>

#include "frameworks/megatron/expert_ranks.h"

namespace plimsoll::megatron {
namespace {

StageParameter matrix(std::string name, int64_t out, int64_t in, bool is_split) {
  return {.name = std::move(name), .shape = {out, in}, .is_split = is_split};
}

}  // namespace

std::vector<StageParameter> expert_parameters(const Architecture& a, const ResolvedJob& job, const Moe& moe,
                                              const std::string& path) {
  const MegatronExperts& e = job.megatron->experts;
  const int64_t local = moe.experts / e.expert_ranks, halves = moe.is_gated ? 2 : 1;
  const int64_t width = moe.expert_intermediate / expert_tensor_ranks(job);
  std::vector<StageParameter> out;
  out.push_back(matrix(path + "router.weight", moe.experts, a.hidden, false));
  out.back().is_made_on_host = out.back().is_cast_on_host = true;
  const auto add = [&](std::string name, bool is_first) {
    out.push_back(matrix(path + std::move(name), is_first ? width * halves : a.hidden,
                         is_first ? a.hidden : width, true));
    out.back().is_expert = have_experts_own_groups(job);
  };
  for (const bool is_first : {true, false})
    for (int64_t i = 0; e.has_grouped_gemm && i < local; ++i)
      add(fmt::format("experts.linear_fc{}.weight{}", is_first ? 1 : 2, i), is_first);
  for (int64_t i = 0; !e.has_grouped_gemm && i < local; ++i)
    for (const bool is_first : {true, false})
      add(fmt::format("experts.local_experts.{}.linear_fc{}.weight", i, is_first ? 1 : 2), is_first);
  if (moe.shared_intermediate == 0) return out;
  const int64_t shared = moe.shared_intermediate / job.mesh.tensor;
  out.push_back(matrix(path + "shared_experts.linear_fc1.weight", shared * halves, a.hidden, true));
  out.push_back(matrix(path + "shared_experts.linear_fc2.weight", a.hidden, shared, true));
  return out;
}

// Transformer Engine's layers: the projections down are whole on every rank; with norms (--qk-layernorm)
// these are one module with the projection up.
std::vector<StageParameter> latent_parameters(const Architecture& a, const ResolvedJob& job,
                                              const Attention& attention, const std::string& path) {
  const LatentAttention& latent = *attention.latent;
  const int64_t heads = attention.heads / job.mesh.tensor;
  std::vector<StageParameter> out;
  const auto norm = [&](const std::string& name, int64_t width) {
    if (attention.head_norm == HeadNorm::kNone) return;
    out.push_back({.name = path + name + ".layer_norm_weight", .shape = {width}, .is_decayed = false});
    if (a.norm.has_bias)
      out.push_back({.name = path + name + ".layer_norm_bias", .shape = {width}, .is_decayed = false});
  };
  out.push_back(matrix(path + "linear_proj.weight", a.hidden, heads * attention.value_head_dim, true));
  if (attention.output_bias)
    out.push_back({.name = path + "linear_proj.bias", .shape = {a.hidden}, .is_decayed = false});
  if (latent.query_rank) {
    out.push_back(matrix(path + "linear_q_down_proj.weight", *latent.query_rank, a.hidden, false));
    norm("linear_q_up_proj", *latent.query_rank);
    out.push_back(
        matrix(path + "linear_q_up_proj.weight", heads * attention.head_dim, *latent.query_rank, true));
  } else {
    out.push_back(matrix(path + "linear_q_proj.weight", heads * attention.head_dim, a.hidden, true));
  }
  out.push_back(
      matrix(path + "linear_kv_down_proj.weight", latent.kv_rank + latent.rope_head_dim, a.hidden, false));
  norm("linear_kv_up_proj", latent.kv_rank);
  out.push_back(matrix(path + "linear_kv_up_proj.weight",
                       heads * (latent.nope_head_dim + attention.value_head_dim), latent.kv_rank, true));
  return out;
}

}  // namespace plimsoll::megatron
