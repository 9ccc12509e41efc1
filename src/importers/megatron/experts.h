// The arguments of mixtures of experts and of multi-latent attention.
//
// Source: megatron/training/arguments.py (_add_moe_args, _add_mla_args, moe_freq_type),
// transformer_config.py.
#pragma once

#include "importers/megatron/values.h"
#include "model/architecture.h"
#include "strategy/megatron_experts.h"

namespace plimsoll {

// Which layers have experts, of so many: --moe-layer-freq as a number or a Python list. Empty: it isn't one.
std::optional<std::vector<bool>> expert_layers(std::string_view frequency, int64_t layers);

// Gives the layers that have them experts instead of the MLP that they all have.
void read_megatron_experts(MegatronValues& values, Architecture& architecture, MegatronExperts& experts);
// Makes every layer's attention latent where --multi-latent-attention says so.
void read_latent_attention(MegatronValues& values, Architecture& architecture);

}  // namespace plimsoll
