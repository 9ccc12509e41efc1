// Source: torchtitan 0.1.0 and 0.2.2, models/llama3/model/model.py, models/qwen3/model/model.py.
#include "frameworks/torchtitan/rotary.h"

namespace plimsoll::torchtitan {
namespace {

// view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
Value as_complex(const Value& x) {
  Value pairs = ops::reshape(ops::cast(x, DType::kFloat32), {x.size(0), x.size(1), x.size(2), -1, 2});
  return ops::view_as_complex(std::move(pairs));
}

// view_as_real(x * frequencies).flatten(3)
Value turned(const Value& x, const Value& frequencies) {
  Value real = ops::view_as_real(ops::mul(x, frequencies));
  return ops::reshape(std::move(real), {x.size(0), x.size(1), x.size(2), -1});
}

// reshape_for_broadcast: the first rows, for all heads.
Value rows_of(const Value& table, int64_t rows) {
  return ops::view(ops::slice_or_alias(table, 0, 0, rows), {1, rows, 1, table.size(1)});
}

// cat((-x2, x1))
Value rotate_half(const Value& x) {
  const int64_t half = x.size(3) / 2;
  const Value first = ops::slice(x, -1, 0, half), second = ops::slice(x, -1, half, half);
  std::vector<Value> parts;
  parts.push_back(ops::neg(second));
  parts.push_back(first);
  return ops::cat(std::move(parts), -1);
}

Value rotated(const Value& x, const Value& cos, const Value& sin) {
  Value straight = ops::mul(x, cos);
  Value across = ops::mul(rotate_half(x), sin);
  return ops::add(std::move(straight), std::move(across));
}

}  // namespace

Turned apply_complex_rotary(const Value& q, const Value& k, const Value& table) {
  const Value complex_q = as_complex(q);
  const Value complex_k = as_complex(k);
  const Value frequencies = rows_of(table, q.size(1));
  const Value wide_q = turned(complex_q, frequencies);
  const Value wide_k = turned(complex_k, frequencies);
  Value new_q = ops::cast(wide_q, q.dtype());
  return {.q = std::move(new_q), .k = ops::cast(wide_k, k.dtype())};
}

Turned apply_halves_rotary(const Value& q, const Value& k, const Value& table) {
  const int64_t d = q.size(3);
  const Value rows = rows_of(table, q.size(1));
  const Value cos = ops::cast(ops::slice(rows, -1, 0, d), q.dtype());
  const Value sin = ops::cast(ops::slice(rows, -1, d, d), q.dtype());
  Value new_q = rotated(q, cos, sin);
  return {.q = std::move(new_q), .k = rotated(k, cos, sin)};
}

}  // namespace plimsoll::torchtitan
