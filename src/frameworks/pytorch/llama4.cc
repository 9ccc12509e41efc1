// Source: transformers 5.24, models/llama4/modeling_llama4.py, the text model.
#include "frameworks/pytorch/decoder_attention.h"

namespace plimsoll::pytorch {
namespace {

// Llama4TextL2Norm.forward, the module "qk_norm"
Value l2_norm(Eager& e, const Value& x) {
  const Eager::Module scope(e, "qk_norm");
  return norm_without_weight(e, x);
}

// Queries of layers without rotary positions grow with the position:
// log1p(floor((positions.float() + 1.0) / floor_scale)) * attn_scale + 1.0
struct Temperature {
  Value positions, scales;  // [s], [b, s, 1, 1]
};
Temperature temperature(Recorder& r, int64_t b, int64_t s) {
  constexpr double kFloorScale = 8192, kScale = 0.1;
  Temperature t{.positions = ops::add(ops::arange(r, s), 0.0)};
  Value steps = ops::div(ops::add(ops::cast(t.positions, DType::kFloat32), 1.0), kFloorScale);
  Value scales = ops::unary(OpKind::kLog1p, ops::unary(OpKind::kFloor, std::move(steps)));
  scales = ops::add(ops::mul(std::move(scales), kScale), 1.0);
  t.scales = ops::expand(ops::view(std::move(scales), {1, s, 1, 1}), {b, s, 1, 1});
  return t;
}

Attended llama4_attention(Eager& e, const LayerCall& call, const Value& hidden) {
  const Eager::Module scope(e, "self_attn");
  const Attention& spec = call.layer.attention;
  const int64_t b = hidden.size(0), s = hidden.size(1);
  const auto project = [&](std::string_view name) {
    return ops::view(e.linear(name, hidden), {b, s, -1, spec.head_dim});
  };
  Value q = project("q_proj");
  Value k = project("k_proj");
  Value v = ops::transpose(project("v_proj"), 1, 2);
  if (spec.rotary_dim > 0) apply_complex_rotary(q, k, call.rotary, false);
  if (spec.head_norm == HeadNorm::kWithoutWeight) {
    q = l2_norm(e, q);
    k = l2_norm(e, k);
  }
  Temperature tempered;
  if (spec.has_temperature) {
    tempered = temperature(e.recorder(), b, s);
    q = ops::cast(ops::mul(q, tempered.scales), q.dtype());
  }
  q = ops::transpose(q, 1, 2);
  k = ops::transpose(k, 1, 2);
  update_cache(call, k, v);
  AttentionCall core = attention_call(e, call);
  core.widens_softmax = false;
  Attended out = attention_interface(e, core, q, k, v, call.mask);
  out.output = ops::contiguous(ops::reshape(out.output, {b, s, -1}));
  out.output = e.linear("o_proj", out.output);
  return out;
}

}  // namespace

// Llama4TextDecoderLayer.forward
Value llama4_layer(Eager& e, const LayerCall& call, const Value& given) {
  Value hidden = norm(e, call.family, "input_layernorm", given);
  Attended attended = llama4_attention(e, call, hidden);
  hidden = ops::add(given, attended.output);
  const Value residual = hidden;
  hidden = norm(e, call.family, "post_attention_layernorm", hidden);
  if (call.layer.moe) {
    MixtureResult mixed = mixture(e, call.family, call.job.experts, *call.layer.moe, "feed_forward", hidden);
    hidden = std::move(mixed.output);
    attended.weights = std::move(mixed.routing);  // both are `_`
  } else {
    hidden = mlp(e, call.family, *call.layer.mlp, "feed_forward", hidden);
  }
  hidden = ops::add(residual, ops::view(hidden, residual.layout().shape()));
  return hidden;
}

}  // namespace plimsoll::pytorch
