#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// LlamaMLP: down_proj(act_fn(gate_proj(x)) * up_proj(x))
Value gated(Eager& e, const MlpNames& names, const Mlp& mlp, const Value& x) {
  Value gate;
  {
    const Value projected = e.linear("gate_proj", x);
    gate = activation(e, names.activation, mlp.activation, projected);
  }
  Value up = e.linear(names.up, x);
  const Value product = ops::mul(std::move(gate), std::move(up));
  return e.linear(names.down, product);
}

// Phi3MLP: gate, up = gate_up_proj(x).chunk(2); down_proj(up * activation_fn(gate))
Value fused_gated(Eager& e, const MlpNames& names, const Mlp& mlp, const Value& x) {
  std::vector<Value> parts = ops::chunk(e.linear(names.gate_up, x), 2, -1);
  const Value gate = std::move(parts[0]);
  Value up = std::move(parts[1]);
  up = ops::mul(up, activation(e, names.activation, mlp.activation, gate));
  return e.linear(names.down, up);
}

// PhiMLP, Starcoder2MLP
Value plain(Eager& e, const Family& family, const Mlp& mlp, const Value& x) {
  Value hidden = e.linear(family.mlp.up, x);
  hidden = activation(e, family.mlp.activation, mlp.activation, hidden);
  hidden = e.linear(family.mlp.down, hidden);
  if (family.dropouts.are_functions)
    hidden = ops::dropout(hidden, e.dropout_probability(e.architecture().residual_dropout));
  return hidden;
}

}  // namespace

Value mlp(Eager& e, const Family& family, const Mlp& mlp, std::string_view name, const Value& x) {
  const Eager::Module scope(e, name);
  if (!mlp.is_gated) return plain(e, family, mlp, x);
  return mlp.is_fused_gate_up ? fused_gated(e, family.mlp, mlp, x) : gated(e, family.mlp, mlp, x);
}

}  // namespace plimsoll::pytorch
