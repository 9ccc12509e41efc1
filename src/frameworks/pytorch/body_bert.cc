// Source: transformers/models/bert/modeling_bert.py, transformers/models/roberta/modeling_roberta.py.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

bool is_roberta(const Eager& e) { return e.architecture().family == "roberta"; }

// RobertaEmbeddings.create_position_ids_from_input_ids
Value positions_from_ids(const Value& ids) {
  const Value mask = ops::cast(ops::compare(ids), DType::kInt32);
  Value counted = ops::cast(ops::cumsum(mask, 1, DType::kInt64), DType::kInt32);
  const Value indices = ops::mul(ops::add(std::move(counted), 0.0), mask);
  return ops::add(ops::cast(indices, DType::kInt64), 1.0);
}

// BertEmbeddings.forward
Value embeddings_forward(Eager& e, const Value& ids) {
  const Eager::Module scope(e, "embeddings");
  const int64_t b = ids.size(0), s = ids.size(1);
  const Value positions =
      is_roberta(e) ? positions_from_ids(ids) : ops::slice(e.buffer("position_ids"), 1, 0, s);
  Value buffered_types = ops::expand(e.buffer("token_type_ids"), {positions.size(0), -1});
  buffered_types = ops::gather(buffered_types, 1, positions);
  const Value types = ops::expand(buffered_types, {b, s});
  RegionScope region(e, RegionKind::kEmbedding, {&ids});
  const Value words = e.embedding("word_embeddings", ids);
  region.end({&words});
  const Value type_embeddings = e.embedding("token_type_embeddings", types);
  Value embeddings = ops::add(words, type_embeddings);
  const Value position_embeddings = e.embedding("position_embeddings", positions);
  embeddings = ops::add(embeddings, position_embeddings);
  embeddings = e.layer_norm("LayerNorm", embeddings);
  embeddings = e.dropout("dropout", embeddings, e.architecture().embedding_dropout);
  return embeddings;
}

struct LayerCall {
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
};

// BertSelfAttention.forward
Attended self_attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "self");
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const auto heads = [&](std::string_view name) {
    Value x = ops::view(e.linear(name, hidden), {b, s, -1, call.layer.attention.head_dim});
    return ops::transpose(std::move(x), 1, 2);
  };
  const Value q = heads("query");
  const Value k = heads("key");
  const Value v = heads("value");
  Attended out = attend(e, call.job, EagerSoftmax::kPlain, false, q, k, v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  return out;
}

// BertSelfOutput.forward, BertOutput.forward
Value output(Eager& e, const Value& given, const Value& residual) {
  const Eager::Module scope(e, "output");
  Value hidden = e.linear("dense", given);
  hidden = e.dropout("dropout", hidden, e.architecture().residual_dropout);
  hidden = e.layer_norm("LayerNorm", ops::add(hidden, residual));
  return hidden;
}

// BertAttention.forward
Attended attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "attention");
  Attended attended = self_attention(e, call, hidden);
  attended.output = output(e, attended.output, hidden);
  return attended;
}

// BertIntermediate.forward
Value intermediate(Eager& e, const Mlp& spec, const Value& given) {
  const Eager::Module scope(e, "intermediate");
  Value hidden = e.linear("dense", given);
  hidden = activation(e, "intermediate_act_fn", spec.activation, hidden);
  return hidden;
}

// BertLayer.forward
Value layer(Eager& e, const LayerCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given, &call.mask});
  Value hidden;
  {
    const Attended attended = attention(e, call, given);
    const Value inner = intermediate(e, *call.layer.mlp, attended.output);
    hidden = output(e, inner, attended.output);
  }
  region.end({&hidden});
  return hidden;
}

// BertEncoder.forward
Value encoder(Eager& e, const ResolvedJob& job, const Value& given, const Value& mask) {
  const Eager::Module scope(e, "encoder");
  const std::vector<Layer>& layers = e.architecture().layers;
  Value hidden = given;
  for (size_t i = 0; i < layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("layer.{}", i));
    hidden = layer(e, {.job = job, .layer = layers[i], .mask = mask}, hidden);
  }
  return hidden;
}

// BertModel.forward
Value bert_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  const Eager::Module scope(e, is_roberta(e) ? "roberta" : "bert");
  const Value embeddings = embeddings_forward(e, inputs.ids);
  const Value mask = bidirectional_mask(e, job, embeddings, inputs.mask, std::nullopt);
  return encoder(e, job, embeddings, mask);
}

// BertLMPredictionHead.forward, RobertaLMHead.forward
Value prediction_head(Eager& e, const Value& given) {
  const Eager::Module scope(e, is_roberta(e) ? "lm_head" : "cls.predictions");
  Value hidden;
  {
    std::optional<Eager::Module> transform;
    if (!is_roberta(e)) transform.emplace(e, "transform");
    hidden = e.linear("dense", given);
    hidden = activation(e, "transform_act_fn", e.architecture().layers[0].mlp->activation, hidden);
    hidden = e.layer_norm(is_roberta(e) ? "layer_norm" : "LayerNorm", hidden);
  }
  hidden = e.linear("decoder", hidden);
  return hidden;
}

}  // namespace

// BertForMaskedLM.forward
ModelOutput bert_masked_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  const Value last_hidden = bert_model(e, job, inputs);
  RegionScope region(e, RegionKind::kHead, {&last_hidden});
  Value scores = prediction_head(e, last_hidden);
  region.end({&scores});
  mark_as_logits(scores);
  Value loss = masked_lm_loss(e, scores, inputs.labels);
  return {.loss = std::move(loss), .logits = std::move(scores)};
}

}  // namespace plimsoll::pytorch
