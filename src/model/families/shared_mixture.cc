#include "model/families/shared_mixture.h"

#include <fmt/format.h>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {

Moe read_shared_moe(ConfigReader& config) {
  Moe moe =
      read_moe(config, {"n_routed_experts", "num_local_experts", "num_experts"}, "moe_intermediate_size");
  const int64_t shared = config.required_count("n_shared_experts", kMaxExperts);
  moe.shared_intermediate = shared * moe.expert_intermediate;
  moe.expert_groups = config.optional_size("n_group", kMaxExperts).value_or(1);
  moe.groups_per_token = config.optional_size("topk_group", kMaxExperts).value_or(1);
  if (moe.groups_per_token > moe.expert_groups || moe.experts % moe.expert_groups != 0) {
    config.contradiction("n_group",
                         fmt::format("is {}, with {} experts and topk_group {}", moe.expert_groups,
                                     moe.experts, moe.groups_per_token),
                         "a divisor of the experts, not below topk_group");
  }
  return moe;
}

void read_mixed_layers(ConfigReader& config, Architecture& a, const Layer& sparse, bool has_mlp_bias) {
  read_layers(config, a, sparse);
  const int64_t dense = config.required_count("first_k_dense_replace", kMaxLayers);
  if (config.optional_size("moe_layer_freq", kMaxLayers).value_or(1) != 1) {
    config.wrong("moe_layer_freq", "isn't 1, which Transformers' code doesn't know", "1");
  }
  Mlp mlp = read_gated_mlp(config);
  mlp.has_bias = has_mlp_bias;
  for (size_t i = 0; i < a.layers.size() && static_cast<int64_t>(i) < dense; ++i) {
    a.layers[i] = {.attention = sparse.attention, .mlp = mlp};
  }
}

void list_shared_mixture(TensorList& list, const Architecture& a, const Layer& layer) {
  if (layer.mlp) return list_gated_mlp(list, a, "mlp", layer.mlp->intermediate, layer.mlp->has_bias);
  const Moe& moe = *layer.moe;
  list_experts(list, a, "mlp.experts", moe);
  list.parameter("mlp.gate.weight", {{moe.experts, Dim::kExperts}, hidden_of(a)}).is_float32 = true;
  if (moe.has_score_correction_bias) {
    list.buffer("mlp.gate.e_score_correction_bias", {moe.experts}, 4).is_persistent = true;
  }
  if (moe.shared_intermediate > 0) {
    list_gated_mlp(list, a, "mlp.shared_experts", moe.shared_intermediate, moe.has_shared_bias);
  }
}

int64_t prediction_layer_parameters(const Architecture& a) {
  const int last = static_cast<int>(a.layers.size()) - 1;
  int64_t layer = 0;
  for (const ParameterTensor& p : a.parameters) {
    if (p.layer == last) layer = saturating_add(layer, p.elements());
  }
  const int64_t projection = saturating_multiply(2 * a.hidden, a.hidden);
  const int64_t norms = 3 * a.hidden;
  return saturating_multiply(a.prediction_layers, saturating_add(layer, saturating_add(projection, norms)));
}

}  // namespace plimsoll
