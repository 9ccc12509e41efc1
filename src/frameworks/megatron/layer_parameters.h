// The parameters of a layer's parts that are modules of their own: experts and latent attention.
//
// Source: megatron/core/transformer/moe/{router,experts,shared_experts}.py, transformer_layer.py,
// multi_latent_attention.py, models/gpt/{gpt_layer_specs,moe_module_specs}.py.
#pragma once

#include "frameworks/megatron/stage.h"

namespace plimsoll::megatron {

// Of one rank, below `path` ("decoder.layers.3.mlp.").
std::vector<StageParameter> expert_parameters(const Architecture& architecture, const ResolvedJob& job,
                                              const Moe& moe, const std::string& path);
// "decoder.layers.3.self_attention."
std::vector<StageParameter> latent_parameters(const Architecture& architecture, const ResolvedJob& job,
                                              const Attention& attention, const std::string& path);

}  // namespace plimsoll::megatron
