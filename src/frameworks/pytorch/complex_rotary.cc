// Rotary positions as products of complex numbers. Source: transformers 5.24,
// models/{deepseek_v2/modeling_deepseek_v2,llama4/modeling_llama4}.py.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

Rotary complex_rotary_embedding(Eager& e, const Value& positions, int64_t rotary_dim) {
  Value frequencies = e.buffer("inv_freq");
  if (!frequencies) frequencies = ops::empty(e.recorder(), {rotary_dim / 2}, DType::kFloat32);
  Value column = ops::unsqueeze(ops::cast(positions, DType::kFloat32), -1);
  const Value angles = ops::mul(std::move(column), std::move(frequencies));
  Value turns = ops::polar(ops::ones_like(angles), angles);
  turns = ops::mul(turns, 1.0);
  return {.complex = std::move(turns)};
}

namespace {

// torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
Value as_complex(const Value& x) {
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  sizes.back() = x.size(-1) / 2;
  sizes.push_back(2);
  return ops::view_as_complex(ops::reshape(ops::cast(x, DType::kFloat32), sizes));
}

// torch.view_as_real(x * turns).flatten(3)
Value turned(const Value& x, const Value& turns) {
  Value real = ops::view_as_real(ops::mul(x, turns));
  return ops::reshape(std::move(real), {x.size(0), x.size(1), x.size(2), -1});
}

}  // namespace

void apply_complex_rotary(Value& q, Value& k, const Rotary& rotary, bool has_heads_first) {
  const Value complex_q = as_complex(q);
  const Value complex_k = as_complex(k);
  const Value turns = ops::unsqueeze(rotary.complex, has_heads_first ? 1 : 2);
  Value turned_q = turned(complex_q, turns);
  if (has_heads_first) turned_q = ops::cast(std::move(turned_q), q.dtype());
  const Value wide_k = turned(complex_k, turns);
  Value new_q = has_heads_first ? std::move(turned_q) : ops::cast(turned_q, q.dtype());
  k = ops::cast(wide_k, k.dtype());
  q = std::move(new_q);
}

}  // namespace plimsoll::pytorch
