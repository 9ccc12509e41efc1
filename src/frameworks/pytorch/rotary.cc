// Source: transformers/models/{llama,phi,phi3,olmo2,gemma3,cohere,glm4}/modeling_*.py.
#include <fmt/format.h>

#include "frameworks/pytorch/modules.h"
#include "program/dims.h"

namespace plimsoll::pytorch {
namespace {

// torch.max(position_ids) + 1
Value length_of(const Value& given_positions) {
  Value positions = given_positions;
  const Layout scalar = Layout::contiguous(std::initializer_list<int64_t>{});
  Value last = positions.recorder().emit(OpKind::kMax, {&positions}, {scalar, DType::kInt64},
                                         DimAttr{.mask = every_dim(positions.rank())});
  return ops::add(std::move(last), 1.0);
}

// dynamic_rope_update: longrope has two sets of frequencies and writes the chosen one into the buffer;
// dynamic compares the length with two limits (new frequencies beyond them replace a buffer of that size).
void update_frequencies(Eager& e, const Value& frequencies, const Value& positions,
                        const std::string& prefix) {
  const std::string& type = e.architecture().rope_type;
  if (type != "longrope" && type != "dynamic") return;
  const Value length = length_of(positions);
  Value is_longer = ops::compare(length);
  if (type == "dynamic") {
    is_longer = ops::compare(length);
    return;
  }
  Value longer = e.made_once(prefix + "long_inv_freq", frequencies.layout(), frequencies.dtype());
  const Value chosen =
      ops::where(std::move(is_longer), std::move(longer), e.buffer(prefix + "original_inv_freq"));
  ops::copy_(frequencies, chosen);
}

// repeat_interleave(x, 2, dim=-1)
Value interleaved(const Value& x) {
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  std::vector<int64_t> pairs = sizes;
  pairs.push_back(2);
  sizes.back() *= 2;
  return ops::view(ops::clone_contiguous(ops::expand(ops::unsqueeze(x, -1), pairs)), sizes);
}

}  // namespace

Value rotate_half(Eager& e, const Value& x) {
  const int64_t half = x.size(-1) / 2;
  const Value first = ops::slice(x, -1, 0, half);
  const Value second = ops::slice(x, -1, half, x.size(-1) - half);
  std::vector<Value> parts;
  parts.push_back(ops::neg(second));
  parts.push_back(first);
  return e.cat(std::move(parts), -1);
}

namespace {

// rotate_half of Cohere and Glm4: stack((-x[1::2], x[::2])) flattened
Value turned_pairs(const Value& x) {
  const int64_t half = x.size(-1) / 2;
  const Value even = ops::slice(x, -1, 0, half, 2);
  const Value odd = ops::slice(x, -1, 1, half, 2);
  std::vector<Value> parts;
  parts.push_back(ops::neg(odd));
  parts.push_back(even);
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  return ops::view(ops::stack(std::move(parts), -1), sizes);
}

bool turns_pairs(RotaryVariant variant) {
  return variant == RotaryVariant::kInterleavedPartial || variant == RotaryVariant::kInterleavedFloat;
}

// (x * cos) + (rotate_half(x) * sin)
Value rotated(Eager& e, RotaryVariant variant, const Value& x, const Value& cos, const Value& sin) {
  Value straight = ops::mul(x, cos);
  Value turned = turns_pairs(variant) ? turned_pairs(x) : rotate_half(e, x);
  turned = ops::mul(std::move(turned), sin);
  return ops::add(std::move(straight), std::move(turned));
}

// The first rotary_dim elements of the heads and the rest.
struct Cut {
  Value rotary, rest;
};
Cut cut(const Value& x, int64_t rotary_dim) {
  return {.rotary = ops::slice_or_alias(x, -1, 0, rotary_dim),
          .rest = ops::slice_or_alias(x, -1, rotary_dim, x.size(-1) - rotary_dim)};
}

Value joined(Eager& e, Value rotary, const Value& rest) {
  std::vector<Value> parts;
  parts.push_back(std::move(rotary));
  parts.push_back(rest);
  return e.cat(std::move(parts), -1);
}

// Locals of a function that end with it, or are handed to the caller.
struct Applied {
  Value q, k;
  std::vector<Value> held;
};

Applied apply_to_all(Eager& e, RotaryVariant variant, const Value& q, const Value& k, const Value& cos,
                     const Value& sin) {
  Value new_q = rotated(e, variant, q, cos, sin);
  Value new_k = rotated(e, variant, k, cos, sin);
  return {.q = std::move(new_q), .k = std::move(new_k), .held = {}};
}

// Olmo2 and Cohere: the results go back to the dtype of the arguments.
Applied apply_in_float(Eager& e, RotaryVariant variant, const Value& given_q, const Value& given_k,
                       const Value& cos, const Value& sin) {
  const bool widens = variant == RotaryVariant::kInterleavedFloat;
  const Value q = widens ? ops::cast(given_q, DType::kFloat32) : given_q;
  const Value k = widens ? ops::cast(given_k, DType::kFloat32) : given_k;
  const Applied wide = apply_to_all(e, variant, q, k, cos, sin);
  Value new_q = ops::cast(wide.q, given_q.dtype());
  Value new_k = ops::cast(wide.k, given_k.dtype());
  return {.q = std::move(new_q), .k = std::move(new_k), .held = {}};
}

// Phi3: the sum is joined with the rest at once.
Applied apply_to_part(Eager& e, RotaryVariant variant, const Value& q, const Value& k, const Value& cos,
                      const Value& sin) {
  const int64_t rotary_dim = cos.size(-1);
  const Cut q_parts = cut(q, rotary_dim), k_parts = cut(k, rotary_dim);
  Value new_q = joined(e, rotated(e, variant, q_parts.rotary, cos, sin), q_parts.rest);
  Value new_k = joined(e, rotated(e, variant, k_parts.rotary, cos, sin), k_parts.rest);
  return {.q = std::move(new_q), .k = std::move(new_k), .held = {}};
}

// Glm4, Glm4Moe: both are rotated before they are joined.
Applied apply_to_part_together(Eager& e, RotaryVariant variant, const Value& q, const Value& k,
                               const Value& given_cos, const Value& given_sin) {
  const auto table = [&](const Value& x) {
    return turns_pairs(variant) ? interleaved(ops::slice(x, -1, 0, x.size(-1) / 2)) : x;
  };
  const Value cos = table(given_cos), sin = table(given_sin);
  const int64_t rotary_dim = cos.size(-1);
  const Cut q_parts = cut(q, rotary_dim), k_parts = cut(k, rotary_dim);
  Value new_q = rotated(e, variant, q_parts.rotary, cos, sin);
  Value new_k = rotated(e, variant, k_parts.rotary, cos, sin);
  new_q = joined(e, new_q, q_parts.rest);
  new_k = joined(e, new_k, k_parts.rest);
  return {.q = std::move(new_q), .k = std::move(new_k), .held = {}};
}

// Phi: the attention cuts and joins; its locals are the rotated and the other parts.
Applied apply_by_caller(Eager& e, RotaryVariant variant, const Value& q, const Value& k, int64_t rotary_dim,
                        const Rotary& rotary) {
  Cut q_parts = cut(q, rotary_dim), k_parts = cut(k, rotary_dim);
  {
    const Value cos = ops::unsqueeze(rotary.cos, 1), sin = ops::unsqueeze(rotary.sin, 1);
    Value new_q = rotated(e, variant, q_parts.rotary, cos, sin);
    k_parts.rotary = rotated(e, variant, k_parts.rotary, cos, sin);
    q_parts.rotary = std::move(new_q);
  }
  Value new_q = joined(e, q_parts.rotary, q_parts.rest);
  Value new_k = joined(e, k_parts.rotary, k_parts.rest);
  return {.q = std::move(new_q),
          .k = std::move(new_k),
          .held = {q_parts.rotary, q_parts.rest, k_parts.rotary, k_parts.rest}};
}

Applied apply(Eager& e, RotaryVariant variant, const Value& q, const Value& k, const Rotary& rotary) {
  if (variant == RotaryVariant::kPartialByCaller)
    return apply_by_caller(e, variant, q, k, rotary.cos.size(-1), rotary);
  const Value cos = ops::unsqueeze(rotary.cos, 1), sin = ops::unsqueeze(rotary.sin, 1);
  switch (variant) {
    case RotaryVariant::kPartial:
      return apply_to_part(e, variant, q, k, cos, sin);
    case RotaryVariant::kPartialTogether:
    case RotaryVariant::kInterleavedPartial:
      return apply_to_part_together(e, variant, q, k, cos, sin);
    case RotaryVariant::kHalvesFloat:
    case RotaryVariant::kInterleavedFloat:
      return apply_in_float(e, variant, q, k, cos, sin);
    default:
      return apply_to_all(e, variant, q, k, cos, sin);
  }
}

}  // namespace

Rotary rotary_embedding(Eager& e, const Family& family, std::string_view name, const Value& hidden,
                        const Value& positions, int64_t rotary_dim, std::string_view layer_type) {
  const Eager::Module scope(e, name);
  if (family.rotary == RotaryVariant::kComplex) return complex_rotary_embedding(e, positions, rotary_dim);
  const std::string prefix = layer_type.empty() ? "" : fmt::format("{}_", layer_type);
  Value frequencies = e.buffer(prefix + "inv_freq");
  if (!frequencies) frequencies = ops::empty(e.recorder(), {rotary_dim / 2}, DType::kFloat32);
  update_frequencies(e, frequencies, positions, prefix);
  // freqs = position_ids[..., None].float() * inv_freq
  Value column = ops::unsqueeze(ops::cast(positions, DType::kFloat32), -1);
  const Value freqs = ops::mul(std::move(column), std::move(frequencies));
  const Value both = family.rotary == RotaryVariant::kHalfTable          ? freqs
                     : family.rotary == RotaryVariant::kInterleavedFloat ? interleaved(freqs)
                                                                         : ops::cat({freqs, freqs}, -1);
  const Value cos = ops::mul(ops::unary(OpKind::kCos, both), 1.0);
  const Value sin = ops::mul(ops::unary(OpKind::kSin, both), 1.0);
  if (family.rotary == RotaryVariant::kHalvesFloat) return {.cos = cos, .sin = sin};
  return {.cos = ops::cast(cos, hidden.dtype()), .sin = ops::cast(sin, hidden.dtype())};
}

Value rotated(Eager& e, const Value& x, const Value& cos, const Value& sin) {
  return rotated(e, RotaryVariant::kHalves, x, cos, sin);
}

std::vector<Value> apply_rotary(Eager& e, const Family& family, Value& q, Value& k, const Rotary& rotary) {
  if (family.rotary == RotaryVariant::kHalfTable) {
    apply_half_table_rotary(e, q, k, rotary);
    return {};
  }
  Applied applied = apply(e, family.rotary, q, k, rotary);
  q = std::move(applied.q);
  k = std::move(applied.k);
  return std::move(applied.held);
}

}  // namespace plimsoll::pytorch
