// Source: transformers/models/modernbert/modeling_modernbert.py.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

// What layers with and without a window are given.
struct LayerInputs {
  Value mask;
  Rotary rotary;
};
struct LayerCall {
  const ResolvedJob& job;
  const Layer& layer;
  const LayerInputs& inputs;
  bool has_attention_norm = true;
};

// One side of apply_rotary_pos_emb, in fp32: (x.float() * cos) + (rotate_half(x.float()) * sin)
Value rotated_in_float32(Eager& e, const Value& x, const Value& cos, const Value& sin) {
  Value straight = ops::mul(ops::cast(x, DType::kFloat32), cos);
  Value half = rotate_half(e, ops::cast(x, DType::kFloat32));
  Value turned = ops::mul(std::move(half), sin);
  return ops::add(std::move(straight), std::move(turned));
}

void apply_rotary_in_float32(Eager& e, Value& q, Value& k, const Rotary& rotary) {
  const Value cos = ops::unsqueeze(rotary.cos, 1);
  const Value sin = ops::unsqueeze(rotary.sin, 1);
  const Value new_q = rotated_in_float32(e, q, cos, sin);
  const Value new_k = rotated_in_float32(e, k, cos, sin);
  Value low_q = ops::cast(new_q, q.dtype());
  k = ops::cast(new_k, q.dtype());
  q = std::move(low_q);
}

// ModernBertAttention.forward
Attended attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "attn");
  const int64_t b = hidden.size(0), s = hidden.size(1), d = call.layer.attention.head_dim;
  const Value qkv = ops::view(e.linear("Wqkv", hidden), {b, s, 3, -1, d});
  std::vector<Value> parts = ops::unbind(qkv, -3);
  Value q = ops::transpose(std::move(parts[0]), 1, 2);
  Value k = ops::transpose(std::move(parts[1]), 1, 2);
  const Value v = ops::transpose(std::move(parts[2]), 1, 2);
  apply_rotary_in_float32(e, q, k, call.inputs.rotary);
  Attended out = attend(e, call.job, EagerSoftmax::kFloat32, false, q, k, v, call.inputs.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  out.output = e.dropout("out_drop", e.linear("Wo", out.output), e.architecture().attention_dropout);
  return out;
}

// ModernBertMLP.forward
Value mlp(Eager& e, const Mlp& spec, const Value& hidden) {
  const Eager::Module scope(e, "mlp");
  std::vector<Value> parts = ops::chunk(e.linear("Wi", hidden), 2, -1);
  Value product = ops::mul(activation(e, "act", spec.activation, parts[0]), parts[1]);
  product = e.dropout("drop", product, e.architecture().activation_dropout);
  return e.linear("Wo", product);
}

// ModernBertEncoderLayer.forward
Value layer_forward(Eager& e, const LayerCall& call, const Value& given) {
  const Attended attended =
      attention(e, call, call.has_attention_norm ? e.layer_norm("attn_norm", given) : given);
  Value hidden = ops::add(given, attended.output);
  Value fed = mlp(e, *call.layer.mlp, e.layer_norm("mlp_norm", hidden));
  hidden = ops::add(hidden, std::move(fed));
  return hidden;
}

Value layer(Eager& e, const LayerCall& call, const Value& given) {
  const LayerInputs& inputs = call.inputs;
  RegionScope region(e, RegionKind::kBlock, {&given}, {&inputs.mask, &inputs.rotary.cos, &inputs.rotary.sin});
  Value hidden = layer_forward(e, call, given);
  region.end({&hidden});
  return hidden;
}

// ModernBertEmbeddings.forward
Value embeddings_forward(Eager& e, const Value& ids) {
  const Eager::Module scope(e, "embeddings");
  RegionScope region(e, RegionKind::kEmbedding, {&ids});
  const Value tokens = e.embedding("tok_embeddings", ids);
  region.end({&tokens});
  return e.dropout("drop", e.layer_norm("norm", tokens), e.architecture().embedding_dropout);
}

// ModernBertModel.forward
Value modernbert_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  const Eager::Module scope(e, "model");
  const Architecture& a = e.architecture();
  const Value positions = ops::unsqueeze(ops::arange(e.recorder(), inputs.ids.size(1)), 0);
  const Value embeddings = embeddings_forward(e, inputs.ids);  // mask_kwargs holds it
  Value hidden = embeddings;
  std::optional<int64_t> window;
  bool has_full = false;
  for (const Layer& l : a.layers) {
    if (l.attention.window) window = l.attention.window;
    has_full = has_full || !l.attention.window;
  }
  LayerInputs full, sliding;
  full.mask = bidirectional_mask(e, job, hidden, inputs.mask, std::nullopt);
  if (window) sliding.mask = bidirectional_mask(e, job, hidden, inputs.mask, window);
  const auto rotary = [&](std::string_view layer_type) {
    return rotary_embedding(e, {}, "rotary_emb", hidden, positions, a.layers[0].attention.rotary_dim,
                            layer_type);
  };
  if (has_full) full.rotary = rotary("full_attention");
  if (window) sliding.rotary = rotary("sliding_attention");
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("layers.{}", i));
    hidden = layer(e,
                   {.job = job,
                    .layer = a.layers[i],
                    .inputs = a.layers[i].attention.window ? sliding : full,
                    .has_attention_norm = i > 0},
                   hidden);
  }
  hidden = e.layer_norm("final_norm", hidden);
  return hidden;
}

// ModernBertPredictionHead.forward
Value prediction_head(Eager& e, const Value& given) {
  const Eager::Module scope(e, "head");
  const Value hidden = activation(e, "act", Activation::kGelu, e.linear("dense", given));
  return e.layer_norm("norm", hidden);
}

}  // namespace

// ModernBertForMaskedLM.forward
ModelOutput modernbert_masked_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  const Value last_hidden = modernbert_model(e, job, inputs);
  RegionScope region(e, RegionKind::kHead, {&last_hidden});
  Value logits = e.linear("decoder", prediction_head(e, last_hidden));
  region.end({&logits});
  mark_as_logits(logits);
  Value loss;
  {
    const With<Category> category(e.recorder().category, Category::kLogits);
    const Value wide = ops::cast(logits, DType::kFloat32);  // ForMaskedLMLoss
    loss = masked_lm_loss(e, wide, inputs.labels);
  }
  return {.loss = std::move(loss), .logits = std::move(logits)};
}

}  // namespace plimsoll::pytorch
