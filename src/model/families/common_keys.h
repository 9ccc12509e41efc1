// The keys that many families share, read the same way everywhere. Each function reports to the reader and
// leaves a harmless value behind after a problem.
//
// Source: configuration_utils.py and modeling_rope_utils.py of Transformers 5.24.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/config_reader.h"

namespace plimsoll {

// vocab_size, hidden_size, tie_word_embeddings; embedding_dim becomes hidden.
void read_sizes(ConfigReader& config, Architecture& a, bool is_tied_by_default);
// max_position_embeddings; the default is Transformers', it shapes no tensor of a rotary model.
void read_max_position(ConfigReader& config, Architecture& a, int64_t by_default);

enum class KvHeads { kRequired, kAsHeads };  // absent num_key_value_heads
enum class HeadDimKey {
  kRequired,
  kOptional,
  kNone
};  // head_dim: there, hidden / heads when absent, no such key

// num_attention_heads, num_key_value_heads, head_dim. Divisibility is checked.
Attention read_heads(ConfigReader& config, Architecture& a, KvHeads kv_heads, HeadDimKey head_dim);
// heads under `key`, as many key and value heads, head_dim = hidden / heads.
Attention read_equal_heads(ConfigReader& config, const Architecture& a, const KeyNames& key);

struct RotaryDefaults {
  double theta = 10000;
  std::optional<double> part;  // of head_dim that is rotated; empty: whole heads, and the key means nothing
  KeyNames theta_key = "rope_theta";
  KeyNames part_key = "partial_rotary_factor";
};
// rope_theta, rope_scaling or rope_parameters (also one per layer type); sets a.rope_* and
// attention.rotary_dim.
void read_rotary(ConfigReader& config, Architecture& a, Attention& attention,
                 const RotaryDefaults& defaults = {});

// The norms' epsilon and the spread of fresh weights: a.numerics.
void read_numerics(ConfigReader& config, Architecture& a, double epsilon);

// "silu", "gelu_new" ...
Activation read_activation(ConfigReader& config, const KeyNames& key, Activation by_default);

// intermediate_size, hidden_act; gated without bias.
Mlp read_gated_mlp(ConfigReader& config);
// The number of experts, of those that a token uses, and their width, each under its key; hidden_act,
// output_router_logits.
Moe read_moe(ConfigReader& config, const KeyNames& experts, const KeyNames& width,
             const KeyNames& per_token = "num_experts_per_tok");
void set_biases(Attention& attention, bool inputs,
                bool output);  // of the q, k, v and of the output projection

// num_hidden_layers equal layers; the key may have another first name.
void read_layers(ConfigReader& config, Architecture& a, const Layer& layer,
                 const KeyNames& key = "num_hidden_layers");

// layer_types: which layers see a window; absent: by_default(layer). Sets the window of those layers.
// REQUIRES a.layers is filled.
void read_layer_types(ConfigReader& config, Architecture& a, std::optional<int64_t> window,
                      const std::function<bool(size_t)>& is_sliding_by_default);
// sliding_window; null: none, absent: the default.
std::optional<int64_t> read_window(ConfigReader& config, Architecture& a,
                                   std::optional<int64_t> by_default = std::nullopt);
// Qwen: use_sliding_window switches sliding_window on.
std::optional<int64_t> read_switched_window(ConfigReader& config, Architecture& a, int64_t by_default);

}  // namespace plimsoll
