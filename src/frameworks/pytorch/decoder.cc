// Source: transformers/models/{llama,gemma2,gemma3,olmo2,olmo3,granite,phi,phi3,cohere,stablelm,starcoder2,
// glm4}/modeling_*.py. Families differ by what families.h names and by the architecture.
#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"
#include "frameworks/pytorch/decoder_attention.h"

namespace plimsoll::pytorch {
namespace {

// The MLP or the experts of the layer.
MixtureResult feed_forward(Eager& e, const LayerCall& call, const Value& hidden) {
  if (call.layer.moe) return mixture(e, call.family, call.job.experts, *call.layer.moe, "mlp", hidden);
  return {.output = mlp(e, call.family, *call.layer.mlp, "mlp", hidden)};
}

Value normed(Eager& e, const LayerCall& call, std::string_view name, const Value& hidden) {
  return name.empty() ? hidden : norm(e, call.family, name, hidden);
}

// residual + dropout(branch), residual + branch * residual_multiplier
Value added(Eager& e, const LayerCall& call, const Value& residual, std::string_view dropout,
            const Value& branch) {
  const Architecture& a = e.architecture();
  if (call.family.has_multipliers) return ops::add(residual, ops::mul(branch, a.residual_scale));
  if (dropout.empty()) return ops::add(residual, branch);
  return ops::add(residual, e.dropout(dropout, branch, a.residual_dropout));
}

// LlamaDecoderLayer.forward and those that norm elsewhere; the attention's weights stay in scope under the
// name that a mixture's second result takes over.
Value sequential_layer(Eager& e, const LayerCall& call, const Value& given) {
  const Family& family = call.family;
  Value residual = given;
  Value hidden = normed(e, call, family.norms.before_attention, given);
  Attended attended = decoder_attention(e, call, hidden);
  hidden = std::move(attended.output);
  hidden = normed(e, call, family.norms.after_attention, hidden);
  hidden = added(e, call, residual, family.dropouts.attention, hidden);
  residual = hidden;
  hidden = normed(e, call, family.norms.before_mlp, hidden);
  MixtureResult fed_forward = feed_forward(e, call, hidden);
  hidden = std::move(fed_forward.output);
  if (fed_forward.routing) attended.weights = std::move(fed_forward.routing);
  hidden = normed(e, call, family.norms.after_mlp, hidden);
  hidden = added(e, call, residual, family.dropouts.mlp, hidden);
  return hidden;
}

// CohereDecoderLayer.forward
Value parallel_layer(Eager& e, const LayerCall& call, const Value& given) {
  const Value hidden = norm(e, call.family, "input_layernorm", given);
  const Attended attended = decoder_attention(e, call, hidden);
  const Value fed_forward = feed_forward(e, call, hidden).output;
  return ops::add(ops::add(given, attended.output), fed_forward);
}

// PhiDecoderLayer.forward
Value phi_layer(Eager& e, const LayerCall& call, const Value& given) {
  const Dropouts& dropouts = call.family.dropouts;
  const double probability = e.architecture().residual_dropout;
  const Value hidden = norm(e, call.family, "input_layernorm", given);
  Attended attended = decoder_attention(e, call, hidden);
  attended.output = e.dropout(dropouts.attention, attended.output, probability);
  Value fed_forward = feed_forward(e, call, hidden).output;
  fed_forward = e.dropout(dropouts.mlp, fed_forward, probability);
  return ops::add(ops::add(attended.output, fed_forward), given);
}

// StableLmDecoderLayer.forward
Value stablelm_layer(Eager& e, const LayerCall& call, const Value& given) {
  const Value hidden = norm(e, call.family, "input_layernorm", given);
  const Attended attended = decoder_attention(e, call, hidden);
  const bool is_parallel = e.architecture().is_parallel_residual;
  const Value residual = is_parallel ? given : ops::add(given, attended.output);
  Value fed_forward;
  if (is_parallel) {
    fed_forward = feed_forward(e, call, hidden).output;
  } else {
    const Value normed = norm(e, call.family, "post_attention_layernorm", residual);
    fed_forward = feed_forward(e, call, normed).output;
  }
  fed_forward = e.dropout(call.family.dropouts.mlp, fed_forward, e.architecture().residual_dropout);
  if (!is_parallel) return ops::add(residual, fed_forward);
  return ops::add(ops::add(residual, attended.output), fed_forward);
}

Value decoder_layer(Eager& e, const LayerCall& call, const Value& given) {
  switch (call.family.layer) {
    case LayerVariant::kSequential:
      return sequential_layer(e, call, given);
    case LayerVariant::kParallel:
      return parallel_layer(e, call, given);
    case LayerVariant::kParallelResidualLast:
      return phi_layer(e, call, given);
    case LayerVariant::kLlama4:
      return llama4_layer(e, call, given);
    case LayerVariant::kStableLm:
      return stablelm_layer(e, call, given);
  }
  return given;
}

// FSDP2's pre-forward hook casts what a block is given to the dtype of its parameters (cast_forward_inputs).
// Source: torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _pre_forward.
Value as_unit_input(const ResolvedJob& job, const Value& x) {
  const bool is_cast = job.engine == DataParallelEngine::kFsdp2 && job.fsdp2.cast_forward_inputs &&
                       job.fsdp2.param_dtype && x && is_floating(x.dtype());
  return is_cast ? ops::cast(x, *job.fsdp2.param_dtype) : x;
}

Value decoder_block(Eager& e, const LayerCall& given_call, const Value& given) {
  const Rotary rotary{.cos = as_unit_input(given_call.job, given_call.rotary.cos),
                      .sin = as_unit_input(given_call.job, given_call.rotary.sin),
                      .complex = given_call.rotary.complex};
  const LayerCall call{.family = given_call.family,
                       .job = given_call.job,
                       .layer = given_call.layer,
                       .mask = given_call.mask,
                       .rotary = rotary,
                       .positions = given_call.positions,
                       .cache = given_call.cache};
  RegionScope region(e, RegionKind::kBlock, {&given},
                     {&call.mask, &call.positions, &rotary.cos, &rotary.sin, &rotary.complex});
  Value hidden = decoder_layer(e, call, given);
  region.end({&hidden});
  return hidden;
}

// embed_tokens; GemmaTextScaledWordEmbedding multiplies within the module, Granite after it.
Value embedded(Eager& e, const Family& family, const Value& ids) {
  RegionScope region(e, RegionKind::kEmbedding, {&ids});
  Value embeddings = e.embedding("embed_tokens", ids);
  if (family.has_scaled_embedding) {
    const Eager::Module scope(e, "embed_tokens");
    const DType dtype = e.parameter_dtype();
    embeddings = ops::mul(std::move(embeddings), ops::cast(e.buffer("embed_scale"), dtype));
  }
  region.end({&embeddings});
  if (family.has_multipliers) embeddings = ops::mul(embeddings, e.architecture().embedding_scale);
  return embeddings;
}

// position_embeddings: one for all layers, or one a layer type.
struct Rotaries {
  Rotary full, sliding;
};
Rotaries rotary_embeddings(Eager& e, const Family& family, const Value& hidden, const Value& positions) {
  const std::vector<Layer>& layers = e.architecture().layers;
  const int64_t rotary_dim = layers[0].attention.rotary_dim;
  Rotaries rotaries;
  if (!family.has_rotary_by_layer_type) {
    rotaries.full = rotary_embedding(e, family, "rotary_emb", hidden, positions, rotary_dim);
    rotaries.sliding = rotaries.full;
    return rotaries;
  }
  for (const Layer& layer : layers) {
    const bool is_sliding = layer.attention.window.has_value();
    Rotary& rotary = is_sliding ? rotaries.sliding : rotaries.full;
    if (!rotary.cos)
      rotary = rotary_embedding(e, family, "rotary_emb", hidden, positions, rotary_dim,
                                is_sliding ? "sliding_attention" : "full_attention");
  }
  return rotaries;
}

// LlamaModel.forward
Value decoder_model(Eager& e, const Family& family, const ResolvedJob& job, const ModelInputs& inputs,
                    std::vector<Value>* cache) {
  const Eager::Module scope(e, "model");
  const Architecture& a = e.architecture();
  Value embeddings = embedded(e, family, inputs.ids);
  const int64_t s = inputs.ids.size(1);
  const Value positions = ops::unsqueeze(ops::add(ops::arange(e.recorder(), s), 0.0), 0);
  const Masks masks = decoder_masks(e, family, job, embeddings, inputs.mask, positions);
  if (!family.dropouts.embedding.empty())
    embeddings = e.dropout(family.dropouts.embedding, embeddings, a.embedding_dropout);
  Value hidden = embeddings;
  if (family.dropouts.are_functions)
    hidden = ops::dropout(hidden, e.dropout_probability(a.embedding_dropout));
  const Rotaries rotaries = rotary_embeddings(e, family, hidden, positions);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const Eager::Module layer_scope(e, fmt::format("layers.{}", i));
    const bool is_sliding = is_local(a.layers[i].attention);
    hidden = decoder_block(e,
                           {.family = family,
                            .job = job,
                            .layer = a.layers[i],
                            .mask = is_sliding ? masks.local : masks.full,
                            .rotary = is_sliding ? rotaries.sliding : rotaries.full,
                            .positions = positions,
                            .cache = cache},
                           hidden);
  }
  hidden = norm(e, family, family.final_norm, hidden);
  return hidden;
}

}  // namespace

// LlamaForCausalLM.forward
ModelOutput decoder_causal_lm(Eager& e, const Family& family, const ResolvedJob& job,
                              const ModelInputs& inputs) {
  std::vector<Value> cache;
  const Value last_hidden = decoder_model(e, family, job, inputs, has_cache(e, job) ? &cache : nullptr);
  ModelOutput output = causal_lm_head(e, family, last_hidden, inputs);
  output.cache = std::move(cache);
  return output;
}

}  // namespace plimsoll::pytorch
