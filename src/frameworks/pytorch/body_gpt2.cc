// Source: transformers/models/gpt2/modeling_gpt2.py.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

struct BlockCall {
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Value& positions;
  std::vector<Value>* cache;  // nullptr: none
};

// GPT2Attention.forward
Attended attention(Eager& e, const BlockCall& call, const Value& hidden) {
  const Eager::Module scope(e, "attn");
  const Attention& spec = call.layer.attention;
  const int64_t b = hidden.size(0), s = hidden.size(1), width = spec.heads * spec.head_dim;
  const std::vector<int64_t> widths{width, width, width};
  std::vector<Value> parts = ops::split(e.conv1d("c_attn", hidden), widths, 2);
  const auto heads = [&](size_t i) {
    return ops::transpose(ops::view(std::move(parts[i]), {b, s, -1, spec.head_dim}), 1, 2);
  };
  Value k = heads(1);
  Value v = heads(2);
  const Value q = heads(0);
  update_cache(call.cache, k, v);
  Attended out = attend(e, call.job, EagerSoftmax::kThenValueDtype, true, q, k, v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  out.output = e.conv1d("c_proj", out.output);
  out.output = e.dropout("resid_dropout", out.output, e.architecture().residual_dropout);
  return out;
}

// GPT2MLP.forward
Value mlp(Eager& e, const Mlp& spec, const Value& given) {
  const Eager::Module scope(e, "mlp");
  Value hidden = e.conv1d("c_fc", given);
  hidden = activation(e, "act", spec.activation, hidden);
  hidden = e.conv1d("c_proj", hidden);
  hidden = e.dropout("dropout", hidden, e.architecture().residual_dropout);
  return hidden;
}

// GPT2Block.forward
Value block_forward(Eager& e, const BlockCall& call, const Value& given) {
  Value residual = given;
  Value hidden = e.layer_norm("ln_1", given);
  const Attended attended = attention(e, call, hidden);
  hidden = ops::add(attended.output, residual);
  residual = hidden;
  hidden = e.layer_norm("ln_2", hidden);
  const Value fed_forward = mlp(e, *call.layer.mlp, hidden);
  hidden = ops::add(residual, fed_forward);
  return hidden;
}

Value block(Eager& e, const BlockCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given, &call.mask}, {&call.positions});
  Value hidden = block_forward(e, call, given);
  region.end({&hidden});
  return hidden;
}

// GPT2Model.forward
Value gpt2_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs, std::vector<Value>* cache) {
  const Eager::Module scope(e, "transformer");
  const Architecture& a = e.architecture();
  const int64_t s = inputs.ids.size(1);
  const Value ids = ops::view(inputs.ids, {-1, s});
  RegionScope embedding_region(e, RegionKind::kEmbedding, {&ids});
  const Value embeddings = e.embedding("wte", ids);
  embedding_region.end({&embeddings});
  Value positions = ops::add(ops::arange(e.recorder(), s), 0.0);
  positions = ops::unsqueeze(positions, 0);
  const Value position_embeddings = e.embedding("wpe", positions);
  Value hidden = ops::add(embeddings, position_embeddings);
  Value given_mask = inputs.mask;
  if (given_mask) given_mask = ops::view(given_mask, {inputs.ids.size(0), -1});
  const Value mask = causal_mask(e, job, embeddings, given_mask, positions, std::nullopt);
  hidden = e.dropout("drop", hidden, a.embedding_dropout);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("h.{}", i));
    hidden = block(
        e, {.job = job, .layer = a.layers[i], .mask = mask, .positions = positions, .cache = cache}, hidden);
  }
  hidden = e.layer_norm("ln_f", hidden);
  hidden = ops::view(hidden, {-1, s, a.hidden});
  return hidden;
}

}  // namespace

// GPT2LMHeadModel.forward
ModelOutput gpt2_lm_head_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  std::vector<Value> cache;
  const Value last_hidden = gpt2_model(e, job, inputs, has_cache(e, job) ? &cache : nullptr);
  ModelOutput output = causal_lm_head(e, last_hidden, inputs);
  output.cache = std::move(cache);
  return output;
}

}  // namespace plimsoll::pytorch
