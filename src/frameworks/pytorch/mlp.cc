#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

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
