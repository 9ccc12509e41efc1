#include "model/families/opt.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

constexpr int64_t kReservedPositions = 2;  // the position table starts behind them

void read_opt(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  a.embedding_dim = config.optional_size("word_embed_proj_dim", kMaxHidden).value_or(a.hidden);
  a.max_position = config.size("max_position_embeddings", kMaxPosition);
  a.position = PositionKind::kLearned;
  a.position_rows = a.max_position + kReservedPositions;
  a.norm = {.kind = NormKind::kLayerNorm,
            .has_bias = true,
            .has_weight = config.flag("layer_norm_elementwise_affine", true)};
  a.norm.has_bias = a.norm.has_weight;
  a.is_norm_after_add = !config.flag("do_layer_norm_before", true);
  a.has_final_norm = !a.is_norm_after_add && !config.flag("_remove_final_layer_norm", false);
  a.residual_dropout = config.probability("dropout", 0.1);
  a.attention_dropout = config.probability("attention_dropout", 0);
  const bool has_bias = config.flag("enable_bias", true);
  Attention attention = read_equal_heads(config, a, "num_attention_heads");
  set_biases(attention, has_bias, has_bias);
  const Mlp mlp{.intermediate = config.size("ffn_dim", kMaxIntermediate),
                .has_bias = has_bias,
                .activation = read_activation(config, "activation_function", Activation::kRelu)};
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Extent heads = query_width(layer.attention);
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  for (const char* name : {"self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj"}) {
    list.linear(name, heads, hidden_of(a), layer.attention.query_bias);
  }
  list.linear("self_attn.out_proj", hidden_of(a), heads, layer.attention.output_bias);
  list.norm("self_attn_layer_norm", hidden_of(a), a.norm);
  list.linear("fc1", ffn, hidden_of(a), layer.mlp->has_bias);
  list.linear("fc2", hidden_of(a), ffn, layer.mlp->has_bias);
  list.norm("final_layer_norm", hidden_of(a), a.norm);
}

void list_opt(Architecture& a) {
  TensorList list(a);
  const Extent embedding{a.embedding_dim, Dim::kHidden};
  list.embedding("model.decoder.embed_tokens", vocab_of(a), embedding);
  list.embedding("model.decoder.embed_positions", {a.position_rows, Dim::kPosition}, hidden_of(a));
  if (a.embedding_dim != a.hidden) {
    list.linear("model.decoder.project_out", embedding, hidden_of(a), false);
    list.linear("model.decoder.project_in", hidden_of(a), embedding, false);
  }
  if (a.has_final_norm) list.norm("model.decoder.final_layer_norm", hidden_of(a), a.norm);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer("model.decoder.layers", i);
    list_layer(list, a, a.layers[i]);
  }
  list.end_layers();
  if (a.is_tied) {
    list.tie("model.decoder.embed_tokens.weight", "lm_head.weight");
  } else {
    list.linear("lm_head", vocab_of(a), embedding, false);
  }
}

}  // namespace

std::vector<Family> opt_families() {
  return {{.name = "opt",
           .class_name = "OPTForCausalLM",
           .read = read_opt,
           .list_tensors = list_opt,
           .harmless_keys = {"layerdrop"}}};
}

}  // namespace plimsoll
