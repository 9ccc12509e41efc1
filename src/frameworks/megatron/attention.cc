#include "frameworks/megatron/writer.h"

namespace plimsoll::megatron {
namespace {

struct Heads {
  Value q, k, v;  // [s, b, heads, d]
};

// Keys and values once for each query head. Source: DotProductAttention.forward.
Value repeat_groups(Value x, int64_t times) {
  if (times == 1) return x;
  const int64_t s = x.size(0), b = x.size(1), groups = x.size(2), d = x.size(3);
  x = ops::expand(ops::unsqueeze(std::move(x), 3), {s, b, groups, times, d});
  return ops::reshape(ops::clone_contiguous(std::move(x)), {s, b, groups * times, d});
}

// [s, b, heads, d] -> [s, b * heads, d]
Value folded(Value x) {
  const int64_t s = x.size(0), rows = x.size(1) * x.size(2), d = x.size(3);
  return ops::reshape(std::move(x), {s, rows, d});
}

// context [b * heads, s, d] -> [s, b, heads * d], copied
Value joined_heads(const Value& context, int64_t b, int64_t heads) {
  const int64_t s = context.size(1), d = context.size(2);
  Value y = ops::view(context, {b, heads, s, d});
  y = ops::clone_contiguous(ops::permute(std::move(y), {2, 0, 1, 3}));
  return ops::view(std::move(y), {s, b, heads * d});
}

// FusedScaleMaskSoftmax: its kernel, or torch's softmax in fp32. Source:
// megatron/core/fusions/fused_softmax.py.
Value scaled_softmax(Writer& w, Value scores, const Value& mask) {
  if (w.settings().fuses_masked_softmax) return fused_softmax(std::move(scores));
  Value wide = ops::cast(std::move(scores), DType::kFloat32);
  Value scaled = ops::mul(wide, 1.0);
  wide.reset();
  scaled = ops::masked_fill_(std::move(scaled), mask);
  const Value probabilities = ops::softmax(scaled, -1);
  return ops::cast(probabilities, w.dtype());
}

// DotProductAttention of local layers: a buffer that baddbmm doesn't read is kept for ever.
Value local_core(Writer& w, const Attention& attention, Heads heads, const Value& mask) {
  const int64_t times = attention.heads / attention.kv_heads;
  const int64_t s = heads.q.size(0), b = heads.q.size(1), count = heads.q.size(2);
  Value k = repeat_groups(std::move(heads.k), times), v = repeat_groups(std::move(heads.v), times);
  Value q = folded(std::move(heads.q));
  k = folded(std::move(k));
  Value buffer = w.global_buffer(Layout::contiguous({b * count, s, s}));
  if (buffer.layout() != Layout::contiguous({b * count, s, s})) {  // of another use, a part of it
    buffer = ops::slice(ops::view(std::move(buffer), {-1}), 0, 0, b * count * s * s);
    buffer = ops::view(std::move(buffer), {b * count, s, s});
  }
  Value scores = ops::baddbmm(buffer, ops::transpose(q, 0, 1), ops::transpose(ops::transpose(k, 0, 1), 1, 2),
                              1 / static_cast<double>(attention.head_dim));
  Value probabilities = scaled_softmax(w, ops::view(scores, {b, count, s, s}), mask);
  probabilities = ops::dropout(std::move(probabilities), w.architecture().attention_dropout);
  probabilities = ops::view(std::move(probabilities), {b * count, s, s});
  v = folded(std::move(v));
  Value context = ops::bmm(probabilities, ops::transpose(v, 0, 1));
  return joined_heads(context, b, count);
}

// Transformer Engine's get_full_mask for a causal mask with top-left alignment: positions compared in int32,
// then one mask of [1, 1, s, s] or of the attention mask's size. Source:
// transformer_engine/pytorch/attention/ dot_product_attention/utils.py.
Value te_full_mask(Writer& w, const Value& mask, int64_t s) {
  Recorder& r = w.recorder();
  const With<bool> no_grad(r.is_grad_enabled, false);
  Value rows = ops::arange(r, s, DType::kInt32), columns = ops::arange(r, s, DType::kInt32);
  Value distance = ops::sub(ops::view(rows, {1, 1, s, 1}), ops::view(columns, {1, 1, 1, s}));
  rows.reset();
  columns.reset();
  Value first = ops::sub(distance, distance), last = ops::add(distance, distance);
  Value at_least = ops::compare(distance);
  Value below = ops::compare(distance);
  Value not_below = ops::unary(OpKind::kLogicalNot, std::move(below));
  Value inside = ops::logical_and(at_least, not_below);
  at_least.reset();
  not_below.reset();
  Value outside = ops::unary(OpKind::kLogicalNot, std::move(inside));
  Value full = mask ? ops::logical_and(mask, outside) : outside;
  distance.reset();
  first.reset();
  last.reset();
  outside.reset();
  return full;
}

// UnfusedDotProductAttention.
Value te_unfused_core(Writer& w, const Attention& attention, Heads heads, const Value& mask) {
  Recorder& r = w.recorder();
  const int64_t times = attention.heads / attention.kv_heads;
  const int64_t s = heads.q.size(0), b = heads.q.size(1), count = heads.q.size(2);
  Value full = te_full_mask(w, mask, s);
  Value k = repeat_groups(std::move(heads.k), times), v = repeat_groups(std::move(heads.v), times);
  Value q = folded(std::move(heads.q));
  k = folded(std::move(k));
  Value buffer = ops::empty(r, {b * count, s, s}, w.dtype());
  Value scores = ops::baddbmm(buffer, ops::transpose(q, 0, 1), ops::transpose(ops::transpose(k, 0, 1), 1, 2),
                              1 / static_cast<double>(attention.head_dim));
  w.made_once(MadeOnce::Kind::kCublasWorkspace, OpKind::kBaddbmm);
  buffer.reset();
  Value probabilities = te_softmax(ops::view(scores, {b, count, s, s}));
  probabilities = ops::dropout(std::move(probabilities), w.architecture().attention_dropout);
  v = folded(std::move(v));
  probabilities = ops::view(std::move(probabilities), {b * count, s, s});
  Value context = ops::bmm(probabilities, ops::transpose(v, 0, 1));
  Value joined = joined_heads(context, b, count);
  context.reset();
  full.reset();
  return joined;
}

// FlashAttention on copies in [b, s, heads, d]; what is sent on is laid out as [s, b, heads * d].
Value te_flash_core(Writer& w, Heads heads) {
  const auto batch_first = [](Value x) { return ops::clone_contiguous(ops::transpose(std::move(x), 0, 1)); };
  Value q = batch_first(std::move(heads.q)), k = batch_first(std::move(heads.k)),
        v = batch_first(std::move(heads.v));
  Value context = te_flash_attention(std::move(q), std::move(k), std::move(v),
                                     w.settings().is_deterministic ? w.multiprocessors() : 0);
  const int64_t s = context.size(1), b = context.size(0), width = context.size(2) * context.size(3);
  context = ops::clone_contiguous(ops::transpose(std::move(context), 0, 1));
  return ops::view(std::move(context), {s, b, width});
}

}  // namespace

Value core_attention(Writer& w, const Attention& attention, std::vector<Value> qkv, const Value& mask) {
  const Writer::Module module(w, "core_attention");
  Heads heads{.q = std::move(qkv[0]), .k = std::move(qkv[1]), .v = std::move(qkv[2])};
  if (!w.is_te()) return local_core(w, attention, std::move(heads), mask);
  // get_qkv_layout: what isn't one tensor any more is made contiguous.
  const bool is_one = heads.q.info().storage == heads.v.info().storage;
  if (!is_one) {
    heads.q = ops::contiguous(std::move(heads.q));
    heads.k = ops::contiguous(std::move(heads.k));
    heads.v = ops::contiguous(std::move(heads.v));
  }
  w.made_once(MadeOnce::Kind::kSequenceEnds);
  if (w.settings().attention == MegatronAttention::kUnfused)
    return te_unfused_core(w, attention, std::move(heads), mask);
  return te_flash_core(w, std::move(heads));
}

}  // namespace plimsoll::megatron
