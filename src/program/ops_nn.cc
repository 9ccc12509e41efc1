#include <array>
#include <cassert>

#include "program/dims.h"
#include "program/ops.h"

namespace plimsoll::ops {
namespace {

Layout contiguous_like_shape(const Value& x) { return Layout::contiguous(x.layout().shape()); }

// Whether at::matmul folds its larger operand `a` into a matrix. Source: should_fold in LinearAlgebra.cpp.
bool folds(const Value& a, const Value& b) {
  if (a.rank() < 3 || b.rank() > 2) return false;
  if (b.requires_grad()) return true;
  for (int i = 0; i + 2 < a.rank(); ++i)
    if (a.layout().stride(i) != a.layout().stride(i + 1) * a.size(i + 1)) return false;
  return true;
}

// A composite operator's arguments live until it returns.
Value matmul_folded(const Value& a, const Value& b) {
  std::vector<int64_t> sizes(a.layout().shape().begin(), a.layout().shape().end());
  const int64_t width = sizes.back();
  sizes.back() = b.size(-1);
  const Value folded = reshape(a, {-1, width});
  return unsafe_view(mm(folded, b), sizes);
}

Value matmul_batched(const Value& a, const Value& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> batch;
  int64_t groups = 1;
  for (int i = 0; i < rank - 2; ++i) {
    const int in_a = i - (rank - a.rank()), in_b = i - (rank - b.rank());
    const int64_t size_a = in_a >= 0 ? a.size(in_a) : 1, size_b = in_b >= 0 ? b.size(in_b) : 1;
    batch.push_back(std::max(size_a, size_b));
    groups *= batch.back();
  }
  const auto prepared = [&](Value x) {
    const int64_t rows = x.size(-2), columns = x.size(-1);
    std::vector<int64_t> sizes = batch;
    sizes.insert(sizes.end(), {rows, columns});
    return reshape(expand(std::move(x), sizes), {groups, rows, columns});
  };
  std::vector<int64_t> sizes = batch;
  sizes.insert(sizes.end(), {a.size(-2), b.size(-1)});
  const Value left = prepared(a);
  const Value right = prepared(b);
  return unsafe_view(bmm(left, right), sizes);
}

}  // namespace

Value mm(Value a, Value b) {
  assert(a.rank() == 2 && b.rank() == 2 && a.size(1) == b.size(0) && a.dtype() == b.dtype());
  return a.recorder().emit(OpKind::kMm, {&a, &b}, {Layout::contiguous({a.size(0), b.size(1)}), a.dtype()});
}

Value addmm(Value bias, Value a, Value b) {
  assert(a.rank() == 2 && b.rank() == 2 && a.size(1) == b.size(0) && a.dtype() == b.dtype());
  return a.recorder().emit(OpKind::kAddmm, {&bias, &a, &b},
                           {Layout::contiguous({a.size(0), b.size(1)}), a.dtype()});
}

Value bmm(Value a, Value b) {
  assert(a.rank() == 3 && b.rank() == 3 && a.size(2) == b.size(1) && a.size(0) == b.size(0) &&
         a.dtype() == b.dtype());
  return a.recorder().emit(OpKind::kBmm, {&a, &b},
                           {Layout::contiguous({a.size(0), a.size(1), b.size(2)}), a.dtype()});
}

Value baddbmm(Value c, Value a, Value b, double alpha) {
  assert(a.rank() == 3 && b.rank() == 3 && a.size(2) == b.size(1));
  return a.recorder().emit(OpKind::kBaddbmm, {&c, &a, &b},
                           {Layout::contiguous({a.size(0), a.size(1), b.size(2)}), a.dtype()},
                           ScalarAttr{alpha});
}

Value matmul(Value a, Value b) {
  const Arguments held{&a, &b};
  if (a.rank() == 2 && b.rank() == 2) return mm(std::move(a), std::move(b));
  return folds(a, b) ? matmul_folded(a, b) : matmul_batched(a, b);
}

Value linear(Value x, Value weight, Value bias) {
  const Arguments held{&x, &weight, &bias};
  if (bias && x.rank() == 3 && x.layout().is_contiguous()) {  // _flatten_nd_linear
    std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
    const int64_t width = sizes.back();
    sizes.back() = weight.size(0);
    const Value flat = reshape(x, {-1, width});
    return view(addmm(bias, flat, transpose(weight, 0, 1)), sizes);
  }
  const Value transposed = transpose(weight, 0, 1);
  if (!bias) return matmul(x, transposed);
  if (x.rank() == 2) return addmm(bias, x, transposed);
  return add_(matmul(x, transposed), bias);
}

Value grouped_mm(Value a, Value b, Value offsets) {
  // a [tokens, k] x b [groups, k, m] -> [tokens, m]; a [k, tokens] x b [tokens, m] -> [groups, k, m].
  // The result's rows are padded to 16 bytes. Source: torch/_meta_registrations.py,
  // _create_grouped_mm_output_tensor.
  const bool is_a_2d = a.rank() == 2, is_b_2d = b.rank() == 2;
  const int64_t columns = b.size(-1);
  const int64_t aligned = round_up(columns, 16 / bytes_of(a.dtype()));
  Layout layout = is_a_2d && is_b_2d ? Layout::contiguous({offsets.size(0), a.size(0), columns})
                  : is_a_2d          ? Layout::contiguous({a.size(0), columns})
                                     : Layout::contiguous({a.size(0), a.size(1), columns});
  if (aligned != columns) {
    layout.strides[static_cast<size_t>(layout.rank - 2)] = aligned;
    if (layout.rank == 3) layout.strides[0] = aligned * layout.sizes[1];
  }
  return a.recorder().emit(OpKind::kGroupedMm, {&a, &b, &offsets}, {layout, a.dtype()});
}

Value dropout(Value x, double probability) {
  if (probability == 0) return x;
  const Layout layout = x.layout().like();
  const std::array<Recorder::Result, 2> results{{{layout, x.dtype()}, {layout, DType::kBool}}};
  Value* const input = &x;
  std::vector<Value> made =
      x.recorder().emit_many(OpKind::kDropout, {&input, 1}, results, ScalarAttr{probability});
  return std::move(made[0]);
}

Value layer_norm(Value x, Value weight, Value bias) {
  const Layout layout = contiguous_like_shape(x);
  // The kernel works on a contiguous copy, which it gives back.
  const Bytes copy = x.layout().is_contiguous() ? Bytes{} : Bytes{layout.elements()} * bytes_of(x.dtype());
  Recorder& r = x.recorder();
  const DType statistics = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Layout per_row = reduced(layout, dim_mask({-1}, layout.rank), true);
  const std::array<Recorder::Result, 3> results{
      {{layout, x.dtype()}, {per_row, statistics}, {per_row, statistics}}};
  const std::array<Value*, 3> inputs{&x, &weight, &bias};
  std::vector<Value> made = r.emit_many(OpKind::kLayerNorm, inputs, results);
  r.set_workspace(copy);
  return std::move(made[0]);
}

// What Inductor makes of log_softmax in fp32 and nll_loss: each row's maximum and log-sum-exp, from which the
// backward computes the gradient in the logits' dtype. Source: the decompositions _log_softmax,
// nll_loss_forward, _log_softmax_backward_data in torch/_decomp/decompositions.py, fused as
// torch/_inductor/scheduler.py does it.
Value fused_cross_entropy(Value logits, Value target) {
  Recorder& r = logits.recorder();
  const Layout scalar = Layout::contiguous(SizeList{}), rows = Layout::contiguous({logits.size(0), 1});
  const std::array<Recorder::Result, 3> results{
      {{scalar, DType::kFloat32}, {rows, DType::kFloat32}, {rows, DType::kFloat32}}};
  const std::array<Value*, 2> inputs{&logits, &target};
  std::vector<Value> made = r.emit_many(OpKind::kFusedCrossEntropy, inputs, results);
  return std::move(made[0]);
}

// Source: aten/src/ATen/native/cuda/layer_norm_kernel.cu, _fused_rms_norm_cuda: statistics in fp32.
Value fused_rms_norm(Value x, Value weight) {
  const Layout layout = contiguous_like_shape(x);
  const std::array<Recorder::Result, 2> results{
      {{layout, x.dtype()}, {reduced(layout, dim_mask({-1}, layout.rank), true), DType::kFloat32}}};
  const std::array<Value*, 2> inputs{&x, &weight};
  std::vector<Value> made = x.recorder().emit_many(OpKind::kFusedRmsNorm, inputs, results);
  return std::move(made[0]);
}

Value nll_loss(Value log_probabilities, Value target) {
  const Layout scalar = Layout::contiguous(SizeList{});
  const std::array<Recorder::Result, 2> results{
      {{scalar, log_probabilities.dtype()}, {scalar, log_probabilities.dtype()}}};
  const std::array<Value*, 2> inputs{&log_probabilities, &target};
  std::vector<Value> made = target.recorder().emit_many(OpKind::kNllLoss, inputs, results);
  return std::move(made[0]);
}

Value embedding(Value weight, Value ids) {
  std::vector<int64_t> sizes(ids.layout().shape().begin(), ids.layout().shape().end());
  sizes.push_back(weight.size(1));
  return weight.recorder().emit(OpKind::kEmbedding, {&weight, &ids},
                                {Layout::contiguous(sizes), weight.dtype()});
}

Value gather(Value x, int dim, Value index) {
  return x.recorder().emit(OpKind::kGather, {&x, &index}, {contiguous_like_shape(index), x.dtype()},
                           DimAttr{.mask = dim_mask({dim}, x.rank())});
}

Value scatter(Value x, int dim, Value index, Value source) {
  return x.recorder().emit(OpKind::kScatter, {&x, &index, &source}, {x.layout().like(), x.dtype()},
                           DimAttr{.mask = dim_mask({dim}, x.rank())});
}

Value scatter_(Value x, int dim, Value index, Value source) {
  return x.recorder().emit_in_place(OpKind::kScatterInPlace, {&x, &index, &source},
                                    DimAttr{.mask = dim_mask({dim}, x.rank())});
}

Value scatter_add(Value x, int dim, Value index, Value source) {
  return x.recorder().emit(OpKind::kScatterAdd, {&x, &index, &source}, {x.layout().like(), x.dtype()},
                           DimAttr{.mask = dim_mask({dim}, x.rank())});
}

Value index(Value x, std::vector<Value> indices, int first_dim) {
  // Advanced indices broadcast together and replace the dims they stand for.
  std::array<const Layout*, 4> layouts{};
  for (size_t i = 0; i < indices.size(); ++i) layouts[i] = &indices[i].layout();
  const Layout broadcast = pointwise_layout({layouts.data(), indices.size()});
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().begin() + first_dim);
  sizes.insert(sizes.end(), broadcast.shape().begin(), broadcast.shape().end());
  for (int i = first_dim + static_cast<int>(indices.size()); i < x.rank(); ++i) sizes.push_back(x.size(i));
  std::vector<Value*> inputs{&x};
  for (Value& i : indices) inputs.push_back(&i);
  const Recorder::Result result{Layout::contiguous(sizes), x.dtype()};
  return std::move(
      x.recorder().emit_many(OpKind::kIndex, inputs, {&result, 1}, SliceAttr{.dim = first_dim})[0]);
}

Value index_put(Value x, std::vector<Value> indices, Value source, int first_dim) {
  std::vector<Value*> inputs{&x};
  for (Value& i : indices) inputs.push_back(&i);
  inputs.push_back(&source);
  const Recorder::Result result{x.layout().like(), x.dtype()};
  return std::move(
      x.recorder().emit_many(OpKind::kIndexPut, inputs, {&result, 1}, SliceAttr{.dim = first_dim})[0]);
}

Value index_put_(Value x, std::vector<Value> indices, Value source) {
  assert(indices.size() == 1 && "index_put_ with one index tensor");
  return x.recorder().emit_in_place(OpKind::kIndexPutInPlace, {&x, &indices[0], &source});
}

Value histogram(Value x, int64_t bins) {
  return x.recorder().emit(OpKind::kHistogram, {&x}, {Layout::contiguous({bins}), x.dtype()});
}

namespace {

const Layout kScalar = Layout::contiguous(SizeList{});

// Shared by the three fused kernels: output, log-sum-exp, and the dropout generator's seed and offset.
Value attention(OpKind kind, std::span<Value* const> inputs, std::span<const Recorder::Result> results,
                AttentionAttr a) {
  std::vector<Value> made = inputs[0]->recorder().emit_many(kind, inputs, results, a);
  return std::move(made[0]);
}

}  // namespace

// Source of the three: torch/_meta_registrations.py,
// meta__scaled_dot_product_{flash,efficient,cudnn}_attention.
Value flash_attention(Value q, Value k, Value v, bool is_causal, double probability) {
  const std::array<Recorder::Result, 4> results{
      {{q.layout().like(), q.dtype()},
       {Layout::contiguous({q.size(0), q.size(1), q.size(2)}), DType::kFloat32},
       {Layout::contiguous({2}), DType::kInt64},
       {kScalar, DType::kInt64}}};
  const std::array<Value*, 3> inputs{&q, &k, &v};
  return attention(OpKind::kFlashAttention, inputs, results,
                   {.is_causal = is_causal, .dropout = probability});
}

// Its log-sum-exp and the generator's state come back; there is no scalar for an offset. Source:
// flash_attn/flash_attn_interface.py, csrc/flash_attn/flash_api.cpp (mha_fwd).
Value flash_attention_package(Value q, Value k, Value v, bool is_causal, double probability) {
  const std::array<Recorder::Result, 3> results{
      {{q.layout().like(), q.dtype()},
       {Layout::contiguous({q.size(0), q.size(2), q.size(1)}), DType::kFloat32},
       {Layout::contiguous({2}), DType::kInt64}}};
  const std::array<Value*, 3> inputs{&q, &k, &v};
  return attention(OpKind::kFlashAttentionPackage, inputs, results,
                   {.is_causal = is_causal, .dropout = probability});
}

Value efficient_attention(Value q, Value k, Value v, Value mask, bool is_causal, double probability) {
  const bool keeps =
      q.recorder().is_grad_enabled && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  const int64_t rows = keeps ? round_up(q.size(2), int64_t{32}) : 0;
  const Layout out = Layout::contiguous({q.size(0), q.size(2), q.size(1), v.size(3)}).transposed(1, 2);
  const std::array<Recorder::Result, 4> results{
      {{out, q.dtype()},
       {Layout::contiguous({q.size(0), q.size(1), rows}), DType::kFloat32},
       {kScalar, DType::kInt64},
       {kScalar, DType::kInt64}}};
  const std::array<Value*, 4> inputs{&q, &k, &v, &mask};
  return attention(OpKind::kEfficientAttention, inputs, results,
                   {.is_causal = is_causal, .dropout = probability});
}

Value cudnn_attention(Value q, Value k, Value v, bool is_causal, double probability) {
  Layout out = q.layout().like();
  if (v.size(3) != q.size(3))
    out = Layout::contiguous({q.size(0), q.size(2), q.size(1), v.size(3)}).transposed(1, 2);
  const std::array<Recorder::Result, 4> results{
      {{out, q.dtype()},
       {Layout::contiguous({q.size(0), q.size(1), q.size(2), 1}), DType::kFloat32},
       {kScalar, DType::kInt64},
       {kScalar, DType::kInt64}}};
  const std::array<Value*, 3> inputs{&q, &k, &v};
  return attention(OpKind::kCudnnAttention, inputs, results,
                   {.is_causal = is_causal, .dropout = probability});
}

Value functional_all_reduce(Value x) {
  return x.recorder().emit(OpKind::kFunctionalAllReduce, {&x}, {x.layout().like(), x.dtype()});
}
Value with_partial_gradient(Value x) {
  return x.recorder().emit_view(OpKind::kPartialGradient, x, Layout(x.layout()));
}

}  // namespace plimsoll::ops
