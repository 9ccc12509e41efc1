#include <cassert>

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

Value activation(Eager& e, std::string_view name, Activation kind, const Value& x) {
  const Eager::Module scope(e, name);
  switch (kind) {
    case Activation::kSilu:
      return ops::silu(x);
    case Activation::kGelu:
    case Activation::kGeluTanh:
      return ops::gelu(x);
    case Activation::kRelu:
      return ops::relu(x);
    case Activation::kTanh:
      return ops::tanh(x);
    default:
      assert(false && "activation without a recipe");
  }
  return x;
}

Value mlp(Eager& e, const Family&, const Mlp& mlp, std::string_view name, const Value& x) {
  const Eager::Module scope(e, name);
  // down_proj(act_fn(gate_proj(x)) * up_proj(x))
  Value gate;
  {
    const Value projected = e.linear("gate_proj", x);
    gate = activation(e, "act_fn", mlp.activation, projected);
  }
  Value up = e.linear("up_proj", x);
  const Value product = ops::mul(std::move(gate), std::move(up));
  return e.linear("down_proj", product);
}

}  // namespace plimsoll::pytorch
