// Source: transformers/models/bloom/modeling_bloom.py.
#include <fmt/format.h>

#include <cmath>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

// Without padding it only depends on the number of keys: [b * heads, 1, s].
Value alibi_without_mask(const Value& slopes, int64_t batch, int64_t s, DType dtype) {
  Value column = ops::unsqueeze(ops::unsqueeze(slopes, -1), -1);
  Value alibi = ops::mul(std::move(column), ops::arange(slopes.recorder(), s));
  const std::vector<int64_t> times{batch, 1, 1};
  alibi = ops::cast(ops::repeat(alibi, times), dtype);
  return alibi;
}

// build_alibi_tensor
Value alibi_of_mask(const Value& mask, int64_t heads, DType dtype) {
  const Value slopes = alibi_slopes(mask.recorder(), heads).slopes;
  Value counted = ops::add(ops::cumsum(mask, -1, DType::kInt64), -1.0);
  const Value columns = ops::unsqueeze(ops::mul(std::move(counted), mask), 1);
  const Value alibi = ops::mul(ops::unsqueeze(slopes, -1), columns);
  return ops::cast(ops::reshape(alibi, {mask.size(0) * heads, 1, mask.size(1)}), dtype);
}

struct BlockCall {
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Value& alibi;
  std::vector<Value>* cache;  // nullptr: none
};
struct BlockResult {
  Value hidden, weights;
};

// dropout_add
Value dropout_add(Eager& e, const Value& x, const Value& residual) {
  Value out = ops::dropout(x, e.dropout_probability(e.architecture().residual_dropout));
  out = ops::add(residual, out);
  return out;
}

// BloomAttention.forward
Attended attention(Eager& e, const BlockCall& call, const Value& hidden, const Value& residual) {
  const Eager::Module scope(e, "self_attention");
  const int64_t b = hidden.size(0), s = hidden.size(1), heads = call.layer.attention.heads,
                d = call.layer.attention.head_dim;
  const Value fused = e.linear("query_key_value", hidden);
  const Value by_head = ops::view(fused, {b, s, heads, 3, d});
  const auto part = [&](int64_t i) { return ops::transpose(ops::select(by_head, -2, i), 1, 2); };
  Value q = part(0), k = part(1), v = part(2);
  update_cache(call.cache, k, v);
  q = ops::reshape(q, {b * heads, -1, d});
  k = ops::transpose(ops::reshape(k, {b * heads, -1, d}), -1, -2);
  v = ops::reshape(v, {b * heads, -1, d});
  const Value scores = e.baddbmm(call.alibi, q, k, 1 / std::sqrt(static_cast<double>(d)));
  Value weights = ops::view(scores, {b, heads, s, -1});
  if (call.mask) weights = ops::add(weights, call.mask);
  Value probabilities = ops::cast(ops::softmax(weights, -1, DType::kFloat32), q.dtype());
  probabilities = e.dropout("attention_dropout", probabilities, e.architecture().attention_dropout);
  const Value reshaped = ops::view(probabilities, {b * heads, s, -1});
  Value context = e.bmm(reshaped, v);
  context = ops::permute(ops::view(context, {b, heads, s, d}), {0, 2, 1, 3});
  context = ops::reshape(context, {b, s, heads * d});
  Value out = e.linear("dense", context);
  out = dropout_add(e, out, residual);
  return {.output = std::move(out), .weights = std::move(probabilities)};
}

// BloomMLP.forward
Value mlp(Eager& e, const Value& given, const Value& residual) {
  const Eager::Module scope(e, "mlp");
  const Value hidden = activation(e, "gelu_impl", Activation::kGeluBloom, e.linear("dense_h_to_4h", given));
  const Value inner = e.linear("dense_4h_to_h", hidden);
  return dropout_add(e, inner, residual);
}

// BloomBlock.forward
BlockResult block_forward(Eager& e, const BlockCall& call, const Value& given) {
  Value normed = e.layer_norm("input_layernorm", given);
  Attended attended = attention(e, call, normed, given);
  normed = e.layer_norm("post_attention_layernorm", attended.output);
  Value output = mlp(e, normed, attended.output);
  return {.hidden = std::move(output), .weights = std::move(attended.weights)};
}

BlockResult block(Eager& e, const BlockCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given}, {&call.mask, &call.alibi});
  BlockResult result = block_forward(e, call, given);
  region.end({&result.hidden, &result.weights});
  return result;
}

// BloomModel.forward
Value bloom_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs, std::vector<Value>* cache) {
  const Eager::Module scope(e, "transformer");
  const Architecture& a = e.architecture();
  const int64_t heads = a.layers[0].attention.heads;
  RegionScope embedding_region(e, RegionKind::kEmbedding, {&inputs.ids});
  const Value embeddings = e.embedding("word_embeddings", inputs.ids);
  embedding_region.end({&embeddings});
  Value hidden = e.layer_norm("word_embeddings_layernorm", embeddings);
  Value slopes, alibi;
  if (inputs.mask) {
    alibi = alibi_of_mask(inputs.mask, heads, hidden.dtype());
  } else {
    slopes = alibi_slopes(e.recorder(), heads).slopes;
    alibi = alibi_without_mask(slopes, inputs.ids.size(0), inputs.ids.size(1), hidden.dtype());
  }
  const Value mask = causal_mask(e, job, embeddings, inputs.mask, {}, std::nullopt);
  BlockResult outputs;  // of the last block: its attention weights live on beside the next block
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("h.{}", i));
    outputs =
        block(e, {.job = job, .layer = a.layers[i], .mask = mask, .alibi = alibi, .cache = cache}, hidden);
    hidden = outputs.hidden;
  }
  hidden = e.layer_norm("ln_f", hidden);
  return hidden;
}

}  // namespace

// BloomForCausalLM.forward
ModelOutput bloom_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs) {
  std::vector<Value> cache;
  const Value last_hidden = bloom_model(e, job, inputs, has_cache(e, job) ? &cache : nullptr);
  ModelOutput output = causal_lm_head(e, last_hidden, inputs);
  output.cache = std::move(cache);
  return output;
}

}  // namespace plimsoll::pytorch
