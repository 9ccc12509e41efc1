// What DeepSeek's and GLM's mixtures of experts have in common: dense first layers, then routed experts
// beside shared ones, with a router in fp32, and layers for multi-token prediction.
#pragma once

#include "model/config_reader.h"
#include "model/tensor_list.h"

namespace plimsoll {

// n_routed_experts, num_experts_per_tok, moe_intermediate_size, n_shared_experts, n_group, topk_group.
Moe read_shared_moe(ConfigReader& config);
// num_hidden_layers copies of `sparse`, of which the first first_k_dense_replace get an MLP instead.
void read_mixed_layers(ConfigReader& config, Architecture& a, const Layer& sparse, bool has_mlp_bias);

// The layer's MLP, or its experts, router, score bias and shared experts, below "mlp".
void list_shared_mixture(TensorList& list, const Architecture& a, const Layer& layer);

// Parameters of a.prediction_layers, as DeepSeek-V3's checkpoints have them: each a copy of the last layer,
// two norms, a [hidden, 2 x hidden] projection and a final norm. Embedding and head are the main model's.
// REQUIRES a.parameters is filled.
// Source: DeepSeek-V3's published total with its one such layer, 684,489,845,504 elements with copies of
// both.
int64_t prediction_layer_parameters(const Architecture& a);

}  // namespace plimsoll
