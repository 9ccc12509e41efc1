#include "model/families/bert.h"

#include <fmt/format.h>

#include "model/families/common_keys.h"
#include "model/families/decoder_blocks.h"

namespace plimsoll {
namespace {

void read_encoder(ConfigReader& config, Architecture& a) {
  read_sizes(config, a, true);
  a.task = Task::kMaskedLm;
  a.max_position = a.position_rows = config.size("max_position_embeddings", kMaxPosition);
  a.position = PositionKind::kLearned;
  a.type_vocab = config.size("type_vocab_size", kMaxVocab);
  a.norm = {.kind = NormKind::kLayerNorm, .has_bias = true};
  a.is_norm_after_add = a.has_embedding_norm = a.has_head_bias = a.is_masked_lm_head_transformed = true;
  a.has_final_norm = false;
  a.embedding_dropout = a.residual_dropout = config.probability("hidden_dropout_prob", 0.1);
  a.attention_dropout = config.probability("attention_probs_dropout_prob", 0.1);
  config.require_flag("is_decoder", false, "only the encoder is modelled");
  config.require_flag("add_cross_attention", false, "only the encoder is modelled");
  const std::string positions = config.text("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    config.wrong("position_embedding_type", fmt::format("is \"{}\"", shown_text(positions)), "absolute");
  }
  Attention attention = read_equal_heads(config, a, "num_attention_heads");
  attention.is_causal = false;
  set_biases(attention, true, true);
  const Mlp mlp{.intermediate = config.size("intermediate_size", kMaxIntermediate),
                .has_bias = true,
                .activation = read_activation(config, "hidden_act", Activation::kGelu)};
  read_layers(config, a, {.attention = attention, .mlp = mlp});
}

void list_layer(TensorList& list, const Architecture& a, const Layer& layer) {
  const Extent heads = query_width(layer.attention);
  const Extent ffn{layer.mlp->intermediate, Dim::kFfn};
  for (const char* name : {"attention.self.query", "attention.self.key", "attention.self.value"}) {
    list.linear(name, heads, hidden_of(a), true);
  }
  list.linear("attention.output.dense", hidden_of(a), heads, true);
  list.norm("attention.output.LayerNorm", hidden_of(a), a.norm);
  list.linear("intermediate.dense", ffn, hidden_of(a), true);
  list.linear("output.dense", hidden_of(a), ffn, true);
  list.norm("output.LayerNorm", hidden_of(a), a.norm);
}

// BERT registers the positions before the token types, RoBERTa after the norm.
void list_embeddings(TensorList& list, const Architecture& a, const std::string& module,
                     bool positions_last) {
  const Extent rows{a.position_rows, Dim::kPosition};
  list.embedding(module + ".word_embeddings", vocab_of(a), hidden_of(a));
  if (!positions_last) list.embedding(module + ".position_embeddings", rows, hidden_of(a));
  list.embedding(module + ".token_type_embeddings", {a.type_vocab, Dim::kNone}, hidden_of(a));
  list.norm(module + ".LayerNorm", hidden_of(a), a.norm);
  if (positions_last) list.embedding(module + ".position_embeddings", rows, hidden_of(a));
  list.buffer(module + ".position_ids", {1, a.position_rows}, 8);
  list.buffer(module + ".token_type_ids", {1, a.position_rows}, 8);
}

void list_layers(TensorList& list, const Architecture& a, const std::string& container) {
  for (size_t i = 0; i < a.layers.size(); ++i) {
    list.begin_layer(container, i);
    list_layer(list, a, a.layers[i]);
  }
  list.end_layers();
}

struct HeadNames {
  std::string head, dense, norm, word_embeddings;
};

// The bias, then dense, activation and norm, then the decoder, whose weight is the word embeddings' when
// tied.
void list_head(TensorList& list, const Architecture& a, const HeadNames& names) {
  list.parameter(names.head + ".bias", {vocab_of(a)});
  list.linear(names.dense, hidden_of(a), hidden_of(a), true);
  list.norm(names.norm, hidden_of(a), a.norm);
  if (a.is_tied) {
    list.tie(names.word_embeddings + ".weight", names.head + ".decoder.weight");
    list.tie(names.head + ".bias", names.head + ".decoder.bias");
  } else {
    list.linear(names.head + ".decoder", vocab_of(a), hidden_of(a), true);
  }
}

void list_bert(Architecture& a) {
  TensorList list(a);
  list_embeddings(list, a, "bert.embeddings", false);
  list_layers(list, a, "bert.encoder.layer");
  list_head(list, a,
            {.head = "cls.predictions",
             .dense = "cls.predictions.transform.dense",
             .norm = "cls.predictions.transform.LayerNorm",
             .word_embeddings = "bert.embeddings.word_embeddings"});
}

void list_roberta(Architecture& a) {
  TensorList list(a);
  list_embeddings(list, a, "roberta.embeddings", true);
  list_layers(list, a, "roberta.encoder.layer");
  list_head(list, a,
            {.head = "lm_head",
             .dense = "lm_head.dense",
             .norm = "lm_head.layer_norm",
             .word_embeddings = "roberta.embeddings.word_embeddings"});
}

}  // namespace

std::vector<Family> bert_families() {
  return {
      {.name = "bert", .class_name = "BertForMaskedLM", .read = read_encoder, .list_tensors = list_bert},
      {.name = "roberta",
       .class_name = "RobertaForMaskedLM",
       .read = read_encoder,
       .list_tensors = list_roberta},
  };
}

}  // namespace plimsoll
