#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

Rotary rotary_embedding(Eager& e, const Family& family, std::string_view name, const Value& hidden,
                        const Value& positions, int64_t rotary_dim) {
  const Eager::Module scope(e, name);
  if (family.rotary == RotaryVariant::kComplex) return complex_rotary_embedding(e, positions, rotary_dim);
  Value frequencies = e.buffer("inv_freq");
  // freqs = position_ids[..., None].float() * inv_freq
  Value column = ops::unsqueeze(ops::cast(positions, DType::kFloat32), -1);
  if (!frequencies) frequencies = ops::empty(e.recorder(), {rotary_dim / 2}, DType::kFloat32);
  Value freqs = ops::mul(std::move(column), std::move(frequencies));
  Value both = e.cat({freqs, freqs}, -1);
  Value cos = ops::mul(ops::unary(OpKind::kCos, both), 1.0);
  Value sin = ops::mul(ops::unary(OpKind::kSin, both), 1.0);
  return {.cos = ops::cast(cos, hidden.dtype()), .sin = ops::cast(sin, hidden.dtype())};
}

namespace {

Value rotate_half(Eager& e, const Value& x) {
  const int64_t half = x.size(-1) / 2;
  Value first = ops::slice(x, -1, 0, half);
  Value second = ops::slice(x, -1, half, x.size(-1) - half);
  Value negated = ops::neg(second);
  std::vector<Value> parts;
  parts.push_back(std::move(negated));
  parts.push_back(first);
  return e.cat(std::move(parts), -1);
}

}  // namespace

Value rotated(Eager& e, const Value& x, const Value& cos, const Value& sin) {
  Value straight = ops::mul(x, cos);
  Value turned = ops::mul(rotate_half(e, x), sin);
  return ops::add(std::move(straight), std::move(turned));
}

void apply_rotary(Eager& e, const Family&, Value& q, Value& k, const Rotary& rotary) {
  Value cos = ops::unsqueeze(rotary.cos, 1);
  Value sin = ops::unsqueeze(rotary.sin, 1);
  Value new_q = rotated(e, q, cos, sin);
  Value new_k = rotated(e, k, cos, sin);
  q = std::move(new_q);
  k = std::move(new_k);
}

}  // namespace plimsoll::pytorch
