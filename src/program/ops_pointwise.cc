#include <array>
#include <bit>
#include <cassert>

#include "base/block.h"
#include "program/dims.h"
#include "program/ops.h"

namespace plimsoll::ops {
namespace {

int promotion_rank(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 0;
    case DType::kUInt8:
    case DType::kInt8:
      return 1;
    case DType::kInt32:
      return 2;
    case DType::kInt64:
      return 3;
    case DType::kFloat8:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 5;
    case DType::kFloat32:
      return 6;
    case DType::kFloat64:
      return 7;
    case DType::kComplex64:
      return 8;
  }
  return 0;
}

}  // namespace

// c10::promoteTypes with the rule that a tensor without dims does not widen one with dims of its category.
DType result_type(const Value& a, const Value& b) {
  const auto category = [](DType d) { return is_floating(d) ? 2 : d == DType::kBool ? 0 : 1; };
  if (a.dtype() == b.dtype()) return a.dtype();
  if (a.rank() == 0 && b.rank() > 0 && category(a.dtype()) <= category(b.dtype())) return b.dtype();
  if (b.rank() == 0 && a.rank() > 0 && category(b.dtype()) <= category(a.dtype())) return a.dtype();
  if (is_half(a.dtype()) && is_half(b.dtype())) return DType::kFloat32;
  return promotion_rank(a.dtype()) >= promotion_rank(b.dtype()) ? a.dtype() : b.dtype();
}

namespace {

Layout layout_of(std::initializer_list<const Value*> values) {
  std::array<const Layout*, 4> layouts{};
  size_t n = 0;
  for (const Value* v : values) layouts[n++] = &v->layout();
  return pointwise_layout({layouts.data(), n});
}

}  // namespace

Value unary_to(OpKind kind, Value x, DType dtype) {
  return x.recorder().emit(kind, {&x}, {x.layout().like(), dtype});
}
Value unary(OpKind kind, Value x) {
  const DType dtype = x.dtype();
  return unary_to(kind, std::move(x), dtype);
}

Value binary(OpKind kind, Value a, Value b) {
  const DType dtype = result_type(a, b);
  return a.recorder().emit(kind, {&a, &b}, {layout_of({&a, &b}), dtype});
}

Value with_scalar(OpKind kind, Value x, double scalar) {
  const bool makes_float =
      !is_floating(x.dtype()) &&
      (kind == OpKind::kDivScalar || scalar != static_cast<double>(static_cast<int64_t>(scalar)));
  return x.recorder().emit(kind, {&x}, {x.layout().like(), makes_float ? DType::kFloat32 : x.dtype()},
                           ScalarAttr{scalar});
}

Value polar(Value length, Value angle) {
  return length.recorder().emit(OpKind::kPolar, {&length, &angle},
                                {layout_of({&length, &angle}), DType::kComplex64});
}

Value ternary(OpKind kind, Value a, Value b, Value c, DType dtype) {
  return a.recorder().emit(kind, {&a, &b, &c}, {layout_of({&a, &b, &c}), dtype});
}

Value compare(Value a, Value b) {
  return a.recorder().emit(OpKind::kCompareTensor, {&a, &b}, {layout_of({&a, &b}), DType::kBool});
}
Value logical_and(Value a, Value b) { return binary(OpKind::kLogicalAnd, std::move(a), std::move(b)); }
Value logical_and_(Value a, Value b) {
  return a.recorder().emit_in_place(OpKind::kLogicalAndInPlace, {&a, &b});
}
Value where(Value condition, Value a, Value b) {
  const DType dtype = result_type(a, b);
  return ternary(OpKind::kWhere, std::move(condition), std::move(a), std::move(b), dtype);
}
Value masked_fill(Value x, Value mask) {
  const DType dtype = x.dtype();
  return x.recorder().emit(OpKind::kMaskedFill, {&x, &mask}, {layout_of({&x, &mask}), dtype});
}

Value copy_(Value destination, Value source) {
  return destination.recorder().emit_in_place(OpKind::kCopyInPlace, {&destination, &source});
}
Value add_(Value x, Value y) { return x.recorder().emit_in_place(OpKind::kAddInPlace, {&x, &y}); }
Value mul_(Value x, double scalar) {
  return x.recorder().emit_in_place(OpKind::kMulInPlace, {&x}, ScalarAttr{scalar});
}
// The gradient of y reads x as it was: where y wants one, autograd copies x before it is changed.
Value div_(Value x, Value y) {
  Recorder& r = x.recorder();
  Value before;
  if (r.is_grad_enabled && y.requires_grad()) {
    const With<bool> no_grad(r.is_grad_enabled, false);
    before = unary(OpKind::kCloneForBackward, x);
  }
  return r.emit_in_place(OpKind::kDivInPlace, {&x, &y, &before});
}
Value div_(Value x, double scalar) {
  return x.recorder().emit_in_place(OpKind::kDivScalarInPlace, {&x}, ScalarAttr{scalar});
}
Value copy_into_slice_(Value x, Value source, int dim, int64_t start) {
  const SliceAttr slice{.dim = positive_dim(dim, x.rank()), .start = start};
  return x.recorder().emit_in_place(OpKind::kCopyIntoSlice, {&x, &source}, slice);
}
Value masked_fill_(Value x, Value mask) {
  return x.recorder().emit_in_place(OpKind::kMaskedFillInPlace, {&x, &mask});
}
Value gelu_function(Value x, Value input) {
  return x.recorder().emit_in_place(OpKind::kGeluFunction, {&x, &input});
}
Value zero_(Value x) { return x.recorder().emit_in_place(OpKind::kZeroInPlace, {&x}); }

Value sum_mask(Value x, unsigned mask, bool keep_dims, std::optional<DType> dtype) {
  const DType own = is_floating(x.dtype()) ? x.dtype() : DType::kInt64;
  return x.recorder().emit(OpKind::kSum, {&x}, {reduced(x.layout(), mask, keep_dims), dtype.value_or(own)},
                           DimAttr{.mask = mask, .keep_dims = keep_dims});
}
Value sum(Value x, std::initializer_list<int> dims, bool keep_dims) {
  const uint32_t mask = dim_mask(dims, x.rank());
  return sum_mask(std::move(x), mask, keep_dims);
}

Value sum_to(Value x, Sizes sizes) {
  if (std::equal(sizes.begin(), sizes.end(), x.layout().shape().begin(), x.layout().shape().end())) return x;
  if (sizes.empty()) {
    const uint32_t all = every_dim(x.rank());
    return sum_mask(std::move(x), all, false);
  }
  const int leading = x.rank() - static_cast<int>(sizes.size());
  uint32_t mask = every_dim(leading);
  for (int i = leading; i < x.rank(); ++i)
    if (sizes[static_cast<size_t>(i - leading)] == 1 && x.size(i) != 1) mask |= dim_mask({i}, x.rank());
  if (mask != 0) x = sum_mask(std::move(x), mask, true);
  if (leading == 0) return x;
  return view(std::move(x), sizes);
}

Value mean(Value x, std::initializer_list<int> dims, bool keep_dims) {
  const uint32_t mask = dim_mask(dims, x.rank());
  return x.recorder().emit(OpKind::kMean, {&x}, {reduced(x.layout(), mask, keep_dims), x.dtype()},
                           DimAttr{.mask = mask, .keep_dims = keep_dims});
}

Value all(Value x) {
  return x.recorder().emit(OpKind::kAll, {&x}, {Layout::contiguous(SizeList{}), DType::kBool});
}
Value cumsum(Value x, int dim, DType dtype) {
  return x.recorder().emit(OpKind::kCumsum, {&x}, {Layout::contiguous(x.layout().shape()), dtype},
                           DimAttr{.mask = dim_mask({dim}, x.rank())});
}

namespace {

std::vector<Value> values_and_indices(OpKind kind, Value x, const Layout& layout, const DimAttr& attr) {
  const std::array<Recorder::Result, 2> results{{{layout, x.dtype()}, {layout, DType::kInt64}}};
  Value* const input = &x;
  return x.recorder().emit_many(kind, {&input, 1}, results, attr);
}

}  // namespace

std::vector<Value> max(Value x, int dim, bool keep_dims) {
  const DimAttr attr{.mask = dim_mask({dim}, x.rank()), .keep_dims = keep_dims};
  const Layout layout = reduced(x.layout(), attr.mask, keep_dims);
  return values_and_indices(OpKind::kMax, std::move(x), layout, attr);
}
Value minimum(Value x) {
  const DType dtype = x.dtype();
  return x.recorder().emit(OpKind::kMin, {&x}, {Layout::contiguous(SizeList{}), dtype});
}
Value argmax(Value x, int dim) {
  const DimAttr attr{.mask = dim_mask({dim}, x.rank())};
  return x.recorder().emit(OpKind::kArgmax, {&x}, {reduced(x.layout(), attr.mask, false), DType::kInt64},
                           attr);
}
std::vector<Value> topk(Value x, int64_t k, int dim) {
  std::array<int64_t, kMaxRank> sizes = x.layout().sizes;
  sizes[static_cast<size_t>(positive_dim(dim, x.rank()))] = k;
  const Layout layout = Layout::contiguous({sizes.data(), static_cast<size_t>(x.rank())});
  const DimAttr attr{.mask = dim_mask({dim}, x.rank())};
  return values_and_indices(OpKind::kTopk, std::move(x), layout, attr);
}
std::vector<Value> sort(Value x, int dim) {
  const Layout layout = x.layout().like();
  const DimAttr attr{.mask = dim_mask({dim}, x.rank())};
  return values_and_indices(OpKind::kSort, std::move(x), layout, attr);
}

namespace {

Value softmax_like(OpKind kind, Value x, int dim, std::optional<DType> dtype) {
  const Arguments held{&x};
  const DType wanted = dtype.value_or(x.dtype());
  const bool is_fused_cast = x.dtype() == DType::kFloat16 && wanted == DType::kFloat32;
  Value converted = is_fused_cast ? x : cast(x, wanted);
  const DimAttr attr{.mask = dim_mask({dim}, x.rank())};
  return x.recorder().emit(kind, {&converted}, {Layout::contiguous(x.layout().shape()), wanted}, attr);
}

}  // namespace

Value softmax(Value x, int dim, std::optional<DType> dtype) {
  return softmax_like(OpKind::kSoftmax, std::move(x), dim, dtype);
}
Value log_softmax(Value x, int dim, std::optional<DType> dtype) {
  return softmax_like(OpKind::kLogSoftmax, std::move(x), dim, dtype);
}
Value safe_softmax(Value x, int dim) {
  // Its kernel takes a softmax, a mask of the elements that are minus infinity and of the rows that are, and
  // selects. Source: _safe_softmax in aten/src/ATen/native/transformers/attention.cpp.
  const Layout layout = x.layout();
  const uint32_t mask = dim_mask({dim}, x.rank());
  const Bytes workspace = round_to_block(Bytes{layout.elements()} * bytes_of(x.dtype())) +
                          round_to_block(Bytes{layout.elements()}) +
                          round_to_block(Bytes{reduced(layout, mask, true).elements()});
  Recorder& recorder = x.recorder();
  Value result = softmax_like(OpKind::kSafeSoftmax, std::move(x), dim, std::nullopt);
  recorder.set_workspace(workspace);
  return result;
}

}  // namespace plimsoll::ops
