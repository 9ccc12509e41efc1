// Rotary positions by products of two parts with cosines and sines that are held once for a pair. Source:
// transformers 5.24, models/{deepseek_v3/modeling_deepseek_v3,gpt_oss/modeling_gpt_oss}.py.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

struct Parts {
  Value first, second;
};

// cat([first * cos - second * sin, second * cos + first * sin])
Value turned(Eager& e, const Parts& x, const Value& cos, const Value& sin) {
  std::vector<Value> parts;
  {
    const Value straight = ops::mul(x.first, cos);
    const Value across = ops::mul(x.second, sin);
    parts.push_back(ops::sub(straight, across));
  }
  {
    const Value straight = ops::mul(x.second, cos);
    const Value across = ops::mul(x.first, sin);
    parts.push_back(ops::add(straight, across));
  }
  return e.cat(std::move(parts), -1);
}

Parts every_second(const Value& x) {
  const int64_t half = x.size(-1) / 2;
  return {.first = ops::slice(x, -1, 0, half, 2), .second = ops::slice(x, -1, 1, half, 2)};
}

Parts halves(const Value& x) {
  std::vector<Value> parts = ops::chunk(x, 2, -1);
  return {.first = std::move(parts[0]), .second = std::move(parts[1])};
}

}  // namespace

void apply_interleaved_rotary(Eager& e, Value& q, Value& k, const Rotary& rotary) {
  const int64_t half = rotary.cos.size(-1) / 2;
  const auto first_half = [&](const Value& x) { return ops::unsqueeze(ops::slice(x, -1, 0, half), 1); };
  const Value cos = first_half(rotary.cos), sin = first_half(rotary.sin);
  const Parts q_parts = every_second(q), k_parts = every_second(k);
  Value new_q = turned(e, q_parts, cos, sin);
  Value new_k = turned(e, k_parts, cos, sin);
  q = std::move(new_q);
  k = std::move(new_k);
}

void apply_half_table_rotary(Eager& e, Value& q, Value& k, const Rotary& rotary) {
  const Value cos = ops::unsqueeze(rotary.cos, 1), sin = ops::unsqueeze(rotary.sin, 1);
  Value new_q = turned(e, halves(q), cos, sin);
  Value new_k = turned(e, halves(k), cos, sin);
  q = std::move(new_q);
  k = std::move(new_k);
}

}  // namespace plimsoll::pytorch
