#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {
namespace {

struct LayerCall {
  const Family& family;
  const ResolvedJob& job;
  const Layer& layer;
  const Value& mask;
  const Rotary& rotary;
  const Value& positions;
};

// LlamaAttention.forward
Value attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "self_attn");
  const Attention& spec = call.layer.attention;
  const AttentionCall core{.implementation = call.job.attention,
                           .backend = call.job.sdpa_backend,
                           .is_causal = spec.is_causal,
                           .dropout = e.dropout_probability(e.architecture().attention_dropout),
                           .softcap = spec.score_softcap};
  if (spec.latent) return latent_attention(e, call.family, spec, core, hidden, call.rotary, call.mask);
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const auto heads = [&](std::string_view name, std::string_view norm_name) {
    Value x = ops::view(e.linear(name, hidden), {b, s, -1, spec.head_dim});
    if (spec.head_norm == HeadNorm::kPerHead && !norm_name.empty()) x = norm(e, call.family, norm_name, x);
    return ops::transpose(std::move(x), 1, 2);
  };
  Value q = heads("q_proj", "q_norm");
  Value k = heads("k_proj", "k_norm");
  Value v = heads("v_proj", "");
  if (spec.rotary_dim > 0) apply_rotary(e, call.family, q, k, call.rotary);
  Value out = attention_core(e, core, q, k, v, call.mask);
  out = ops::contiguous(ops::reshape(out, {b, s, -1}));
  out = e.linear("o_proj", out);
  return out;
}

// LlamaDecoderLayer.forward
Value decoder_layer(Eager& e, const LayerCall& call, const Value& given) {
  Value residual = given;
  Value hidden = norm(e, call.family, "input_layernorm", given);
  hidden = attention(e, call, hidden);
  hidden = ops::add(residual, hidden);
  residual = hidden;
  hidden = norm(e, call.family, "post_attention_layernorm", hidden);
  hidden = call.layer.moe ? mixture(e, call.family, *call.layer.moe, "mlp", hidden)
                          : mlp(e, call.family, *call.layer.mlp, "mlp", hidden);
  hidden = ops::add(residual, hidden);
  return hidden;
}

Value decoder_block(Eager& e, const LayerCall& call, const Value& given) {
  RegionScope region(e, RegionKind::kBlock, {&given},
                     {&call.mask, &call.positions, &call.rotary.cos, &call.rotary.sin, &call.rotary.complex});
  Value hidden = decoder_layer(e, call, given);
  region.end({&hidden});
  return hidden;
}

// LlamaModel.forward
Value decoder_model(Eager& e, const Family& family, const ResolvedJob& job, const ModelInputs& inputs) {
  const Eager::Module scope(e, "model");
  RegionScope embedding_region(e, RegionKind::kEmbedding, {&inputs.ids});
  const Value embeddings = e.embedding("embed_tokens", inputs.ids);
  embedding_region.end({&embeddings});
  const int64_t s = inputs.ids.size(1);
  Value positions = ops::unsqueeze(ops::add(ops::arange(e.recorder(), s), 0.0), 0);
  const std::vector<Layer>& layers = e.architecture().layers;
  const Value mask = causal_mask(e, job, embeddings, inputs.mask, positions, layers[0].attention.window);
  Value hidden = embeddings;
  const Rotary rotary =
      rotary_embedding(e, family, "rotary_emb", hidden, positions, layers[0].attention.rotary_dim);
  for (size_t i = 0; i < layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("layers.{}", i));
    hidden = decoder_block(e,
                           {.family = family,
                            .job = job,
                            .layer = layers[i],
                            .mask = mask,
                            .rotary = rotary,
                            .positions = positions},
                           hidden);
  }
  hidden = norm(e, family, "norm", hidden);
  return hidden;
}

}  // namespace

// LlamaForCausalLM.forward
ModelOutput decoder_causal_lm(Eager& e, const Family& family, const ResolvedJob& job,
                              const ModelInputs& inputs) {
  const Value last_hidden = decoder_model(e, family, job, inputs);
  Value hidden = ops::slice(last_hidden, 1, 0, last_hidden.size(1));
  RegionScope head_region(e, RegionKind::kHead, {&hidden});
  Value logits = e.linear("lm_head", hidden);
  head_region.end({&logits});
  Value loss = causal_lm_loss(e, logits, inputs.labels);
  return {.loss = std::move(loss), .logits = std::move(logits)};
}

}  // namespace plimsoll::pytorch
