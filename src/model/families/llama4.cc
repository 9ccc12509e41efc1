#include "model/families/llama4.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

// no_rope_layers has 1 for layers with rotary positions; by default every fourth layer has none.
std::vector<bool> read_rotary_layers(ConfigReader& config, size_t layers) {
  const int64_t interval = config.optional_size("no_rope_layer_interval", kMaxLayers).value_or(4);
  const auto listed = config.integers("no_rope_layers").value_or(std::vector<int64_t>{});
  if (!listed.empty() && listed.size() != layers) {
    config.contradiction("no_rope_layers", fmt::format("has {} entries for {} layers", listed.size(), layers),
                         "one entry per layer");
  }
  std::vector<bool> has_rotary(layers);
  for (size_t i = 0; i < layers; ++i) {
    has_rotary[i] = listed.size() == layers ? listed[i] != 0 : (static_cast<int64_t>(i) + 1) % interval != 0;
  }
  return has_rotary;
}

std::vector<bool> read_moe_layers(ConfigReader& config, size_t layers) {
  const int64_t step = config.optional_size("interleave_moe_layer_step", kMaxLayers).value_or(1);
  const auto listed = config.integers("moe_layers");
  std::vector<bool> has_experts(layers);
  for (size_t i = 0; i < layers; ++i) {
    const auto layer = static_cast<int64_t>(i);
    has_experts[i] =
        listed ? std::find(listed->begin(), listed->end(), layer) != listed->end() : (layer + 1) % step == 0;
  }
  return has_experts;
}

// Layers with positions attend in chunks, the others to all, unless layer_types says otherwise.
void read_chunks(ConfigReader& config, Architecture& a) {
  const bool is_absent = !config.is_there("attention_chunk_size");
  const auto listed_chunk = config.optional_size("attention_chunk_size", kMaxPosition);
  const std::optional<int64_t> chunk = is_absent ? std::optional<int64_t>(8192) : listed_chunk;
  const auto types = config.texts("layer_types");
  if (types && types->size() != a.layers.size()) {
    config.contradiction("layer_types",
                         fmt::format("has {} entries for {} layers", types->size(), a.layers.size()),
                         "one entry per layer");
    return;
  }
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const bool is_chunked = types ? (*types)[i] == "chunked_attention" : a.layers[i].attention.rotary_dim > 0;
    if (is_chunked) a.layers[i].attention.chunk = chunk;
  }
}

void read_layer_kinds(ConfigReader& config, Architecture& a, const Mlp& mlp, bool has_head_norm) {
  const bool has_temperature = config.flag("attn_temperature_tuning", true);
  const std::vector<bool> has_rotary = read_rotary_layers(config, a.layers.size());
  const std::vector<bool> has_experts = read_moe_layers(config, a.layers.size());
  for (size_t i = 0; i < a.layers.size(); ++i) {
    Layer& layer = a.layers[i];
    if (!has_rotary[i]) layer.attention.rotary_dim = 0;
    layer.attention.has_temperature = has_temperature && !has_rotary[i];
    if (has_rotary[i] && has_head_norm) layer.attention.head_norm = HeadNorm::kWithoutWeight;
    if (has_experts[i]) continue;
    layer.moe.reset();
    layer.mlp = mlp;
  }
}

void read_llama4(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  read_max_position(config, a, 131072);
  Attention attention = read_heads(config, a, KvHeads::kRequired, HeadDimKey::kRequired);
  read_rotary(config, a, attention, {.theta = 500000});
  const bool has_bias = config.flag("attention_bias", false);
  set_biases(attention, has_bias, has_bias);
  a.attention_dropout = config.probability("attention_dropout", 0);
  Moe moe = read_moe(config, "num_local_experts", "intermediate_size");
  moe.shared_intermediate = moe.expert_intermediate;
  const Mlp mlp{.intermediate = config.size("intermediate_size_mlp", kMaxIntermediate),
                .is_gated = true,
                .activation = moe.activation};
  read_layers(config, a, {.attention = attention, .moe = moe});
  read_layer_kinds(config, a, mlp, config.flag("use_qk_norm", true));
  read_chunks(config, a);
}

// Experts lie [experts, in, out], the other way round than elsewhere.
void list_mixture(TensorList& list, const Architecture& a, const Moe& moe) {
  const Extent experts{moe.experts, Dim::kExperts};
  list.expert("feed_forward.experts.gate_up_proj",
              {experts, hidden_of(a), {2 * moe.expert_intermediate, Dim::kFfn}});
  list.expert("feed_forward.experts.down_proj",
              {experts, {moe.expert_intermediate, Dim::kFfn}, hidden_of(a)});
  list.linear("feed_forward.router", experts, hidden_of(a), false);
  list_gated_mlp(list, a, "feed_forward.shared_expert", moe.shared_intermediate, false);
}

void list_llama4(Architecture& a) {
  list_decoder(a, [](TensorList& list, const Architecture& a, const Layer& layer) {
    list_attention(list, a, layer.attention);
    if (layer.moe) {
      list_mixture(list, a, *layer.moe);
    } else {
      list_gated_mlp(list, a, "feed_forward", layer.mlp->intermediate, false);
    }
    list_two_norms(list, a);
  });
  TensorList list(a);
  list_rotary_buffers(list, "model.rotary_emb", a.layers.front().attention.head_dim);
}

}  // namespace

std::vector<Family> llama4_families() {
  return {{.name = "llama4_text",
           .class_name = "Llama4ForCausalLM",
           .read = read_llama4,
           .list_tensors = list_llama4,
           .harmless_keys = {"floor_scale", "attn_scale"}}};
}

}  // namespace plimsoll
