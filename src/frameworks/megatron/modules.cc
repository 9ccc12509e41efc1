#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {

// TENorm, and the norm of local layers: apex' FusedLayerNorm. Source: megatron/core/models/backends.py.
Value norm(Writer& w, std::string_view name, const Value& x) {
  const Writer::Module module(w, name);
  const Value weight = w.parameter("weight");
  if (w.is_te() || (name == "final_layernorm" && w.settings().has_transformer_engine))
    return te_norm(x, weight, w.parameter("bias"), w.multiprocessors());
  return fused_layer_norm(x, weight, w.parameter("bias"));
}

namespace {

LinearOptions column_options(Writer& w) {
  return {.sums_input_gradient = w.tensor_ranks() > 1, .dummy_gradient = w.dummy_gradient()};
}

Projected te_normed_column_linear(Writer& w, std::string_view name, const Value& x, bool adds_bias) {
  const Writer::Module module(w, name);
  Value bias = w.parameter("bias");
  Projected out;
  out.result = te_norm_linear(x, w.parameter("layer_norm_weight"), w.parameter("layer_norm_bias"),
                              w.parameter("weight"), adds_bias ? bias : Value(), w.multiprocessors(),
                              column_options(w));
  w.made_once(MadeOnce::Kind::kTeWorkspace, OpKind::kTeNorm);
  if (!adds_bias) out.bias = std::move(bias);
  return out;
}

}  // namespace

Projected normed_column_linear(Writer& w, std::string_view norm_name, std::string_view name, const Value& x,
                               bool adds_bias) {
  if (w.is_te()) return te_normed_column_linear(w, name, x, adds_bias);
  Value normed = norm(w, norm_name, x);
  const Writer::Module module(w, name);
  Value bias = w.parameter("bias");
  Projected out;
  out.result = linear(normed, w.parameter("weight"), adds_bias ? bias : Value(), column_options(w));
  w.made_once(MadeOnce::Kind::kCublasWorkspace, OpKind::kMm);
  if (!adds_bias) out.bias = std::move(bias);
  return out;
}

Projected row_linear(Writer& w, std::string_view name, Value x) {
  const Writer::Module module(w, name);
  Projected out{.bias = w.parameter("bias")};
  out.result =
      w.is_te() ? te_linear(std::move(x), w.parameter("weight"), {}, {.dummy_gradient = w.dummy_gradient()})
                : linear(std::move(x), w.parameter("weight"), {}, {.dummy_gradient = w.dummy_gradient()});
  if (w.tensor_ranks() > 1) out.result = reduce_from_tensor_parallel(std::move(out.result));
  return out;
}

}  // namespace plimsoll::megatron
