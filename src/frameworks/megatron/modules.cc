#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {

// TENorm, and the norm of local layers: apex' FusedLayerNorm. Source: megatron/core/models/backends.py.
Value norm(Writer& w, std::string_view name, const Value& x) {
  const Writer::Module module(w, name);
  const Value weight = w.parameter("weight");
  const bool is_te = name == "final_layernorm" ? has_te_final_norm(w.architecture(), w.job()) : w.is_te();
  if (is_te) return te_norm(x, weight, w.parameter("bias"), w.multiprocessors());
  return fused_layer_norm(x, weight, w.parameter("bias"));
}

namespace {

// Of a column-wise linear on x [s, b, h], of which sequence parallelism leaves each rank a part.
LinearOptions column_options(Writer& w, const Value& x) {
  LinearOptions options{.dummy_gradient = w.dummy_gradient(), .input_ranks = w.sequence_ranks()};
  options.sums_input_gradient = w.tensor_ranks() > 1 && options.input_ranks == 1;
  if (options.input_ranks > 1 && !w.is_te())
    options.buffer =
        w.global_buffer(Layout::contiguous({x.size(0) * options.input_ranks, x.size(1), x.size(2)}));
  return options;
}

}  // namespace

Projected te_normed_column_linear(Writer& w, std::string_view name, const Value& x, bool adds_bias) {
  const Writer::Module module(w, name);
  Value bias = w.parameter("bias");
  Projected out;
  out.result = te_norm_linear(x, w.parameter("layer_norm_weight"), w.parameter("layer_norm_bias"),
                              w.parameter("weight"), adds_bias ? bias : Value(), w.multiprocessors(),
                              column_options(w, x));
  w.made_once(MadeOnce::Kind::kTeWorkspace, OpKind::kTeNorm);
  if (!adds_bias) out.bias = std::move(bias);
  return out;
}

Projected normed_column_linear(Writer& w, std::string_view norm_name, std::string_view name, const Value& x,
                               bool adds_bias) {
  if (w.is_te()) return te_normed_column_linear(w, name, x, adds_bias);
  Value normed = norm(w, norm_name, x);
  const Writer::Module module(w, name);
  Value bias = w.parameter("bias");
  Projected out;
  out.result = linear(normed, w.parameter("weight"), adds_bias ? bias : Value(), column_options(w, normed));
  w.made_once(MadeOnce::Kind::kCublasWorkspace, OpKind::kMm);
  if (!adds_bias) out.bias = std::move(bias);
  return out;
}

Projected column_linear(Writer& w, std::string_view name, const Value& x) {
  const Writer::Module module(w, name);
  Projected out{.bias = w.parameter("bias")};
  out.result = w.is_te() ? te_linear(x, w.parameter("weight"), {}, column_options(w, x))
                         : linear(x, w.parameter("weight"), {}, column_options(w, x));
  return out;
}

Projected row_linear(Writer& w, std::string_view name, Value x) {
  const Writer::Module module(w, name);
  Projected out{.bias = w.parameter("bias")};
  LinearOptions options{.dummy_gradient = w.dummy_gradient()};
  const int64_t ranks = w.sequence_ranks();
  if (w.is_te()) {
    options.result_ranks = ranks;
    out.result = te_linear(std::move(x), w.parameter("weight"), {}, options);
  } else {
    out.result = linear(std::move(x), w.parameter("weight"), {}, options);
    if (ranks > 1) out.result = reduce_scatter_to_sequence_parallel(std::move(out.result), ranks);
  }
  if (w.tensor_ranks() > 1 && ranks == 1) out.result = reduce_from_tensor_parallel(std::move(out.result));
  return out;
}

}  // namespace plimsoll::megatron
