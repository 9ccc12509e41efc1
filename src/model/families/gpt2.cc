#include "model/families/gpt2.h"

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_dropouts(ConfigReader& config, Architecture& a, double by_default) {
  a.embedding_dropout = config.probability("embd_pdrop", by_default);
  a.residual_dropout = config.probability("resid_pdrop", by_default);
  a.attention_dropout = config.probability("attn_pdrop", by_default);
}

// Sizes, learned or rotary positions aside, that GPT-2 and GPT-J share.
Layer read_block(ConfigReader& config, Architecture& a) {
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.max_position = config.size({"n_positions", "max_position_embeddings"}, kMaxPosition);
  Layer layer{.attention = read_equal_heads(config, a, {"n_head", "num_attention_heads"})};
  layer.mlp = Mlp{.intermediate = config.optional_size("n_inner", kMaxIntermediate).value_or(4 * a.hidden),
                  .has_bias = true,
                  .activation = read_activation(config, "activation_function", Activation::kGeluNew)};
  return layer;
}

void read_gpt2(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  read_numerics(config, a, 1e-5);
  a.numerics.has_scaled_scores = config.flag("scale_attn_weights", true);
  a.numerics.scales_scores_by_layer = config.flag("scale_attn_by_inverse_layer_idx", false);
  Layer layer = read_block(config, a);
  layer.attention.is_fused_qkv = true;
  layer.attention.query_bias = layer.attention.key_bias = layer.attention.value_bias = true;
  layer.attention.output_bias = true;
  a.position = PositionKind::kLearned;
  a.position_rows = a.max_position;
  read_dropouts(config, a, 0.1);
  config.require_flag("add_cross_attention", false, "a decoder that attends to an encoder isn't modelled");
  config.require_flag("reorder_and_upcast_attn", false, "attention in fp32 isn't modelled");
  read_layers(config, a, layer, {"n_layer", "num_hidden_layers"});
}

void list_gpt2_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Extent hidden = hidden_of(a);
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  list.norm("ln_1", hidden, a.norm);
  list.transposed_linear("attn.c_attn", hidden, {3 * a.hidden, Dim::kHeads}, true);
  list.transposed_linear("attn.c_proj", {a.hidden, Dim::kHeads}, hidden, true);
  list.norm("ln_2", hidden, a.norm);
  list.transposed_linear("mlp.c_fc", hidden, ffn, true);
  list.transposed_linear("mlp.c_proj", ffn, hidden, true);
}

void list_head(TensorList& list, const Architecture& a) {
  if (a.is_tied) {
    list.tie("transformer.wte.weight", "lm_head.weight");
    if (a.has_head_bias) list.parameter("lm_head.bias", {vocab_of(a)});
  } else {
    list.linear("lm_head", vocab_of(a), hidden_of(a), a.has_head_bias);
  }
}

void list_gpt2(Architecture& a) {
  TensorList list(a);
  list.embedding("transformer.wte", vocab_of(a), hidden_of(a));
  list.embedding("transformer.wpe", {a.position_rows, Dim::kPosition}, hidden_of(a));
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer("transformer.h", i);
    list_gpt2_layer(list, a, a.layers[i]);
  }
  list.end_layers();
  list.norm("transformer.ln_f", hidden_of(a), a.norm);
  list_head(list, a);
}

void read_gptj(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, false);
  Layer layer = read_block(config, a);
  a.position = PositionKind::kRotary;
  a.is_parallel_residual = true;
  a.has_head_bias = true;
  layer.attention.rotary_dim = config.nullable_size("rotary_dim", kMaxHeadDim).value_or(a.hidden);
  if (layer.attention.rotary_dim > layer.attention.head_dim || layer.attention.rotary_dim % 2 != 0) {
    config.contradiction("rotary_dim", "is no even part of the head",
                         "an even number up to hidden size / heads");
  }
  read_dropouts(config, a, 0);
  read_layers(config, a, layer, {"n_layer", "num_hidden_layers"});
}

void list_gptj_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Extent hidden = hidden_of(a);
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  list.norm("ln_1", hidden, a.norm);
  for (const char* name : {"attn.k_proj", "attn.v_proj", "attn.q_proj"}) {
    list.linear(name, query_width(layer.attention), hidden, false);
  }
  list.linear("attn.out_proj", hidden, query_width(layer.attention), false);
  list.linear("mlp.fc_in", ffn, hidden, true);
  list.linear("mlp.fc_out", hidden, ffn, true);
}

void list_gptj(Architecture& a) {
  TensorList list(a);
  list.embedding("transformer.wte", vocab_of(a), hidden_of(a));
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer("transformer.h", i);
    list_gptj_layer(list, a, a.layers[i]);
  }
  list.end_layers();
  list.norm("transformer.ln_f", hidden_of(a), a.norm);
  list_head(list, a);
  const int64_t rotary_dim = a.layers.front().attention.rotary_dim;
  list.buffer("transformer.rotary_emb.embed_positions", {a.max_position, rotary_dim}, 4);
}

}  // namespace

std::vector<Family> gpt2_families() {
  return {
      {.name = "gpt2",
       .class_name = "GPT2LMHeadModel",
       .read = read_gpt2,
       .list_tensors = list_gpt2,
       .harmless_keys = {"n_ctx", "summary_type", "summary_use_proj", "summary_activation",
                         "summary_proj_to_labels", "summary_first_dropout"}},
      {.name = "gptj",
       .class_name = "GPTJForCausalLM",
       .read = read_gptj,
       .list_tensors = list_gptj,
       .harmless_keys = {"n_ctx", "summary_type", "summary_use_proj", "summary_activation",
                         "summary_proj_to_labels", "summary_first_dropout", "scale_attn_weights"}},
  };
}

}  // namespace plimsoll
