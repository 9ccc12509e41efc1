#include <algorithm>
#include <cassert>

#include "program/dims.h"
#include "program/ops.h"

namespace plimsoll::ops {
namespace {

Sizes span_of(SizeList sizes) { return {sizes.begin(), sizes.size()}; }

}  // namespace

Value view(Value x, Sizes sizes) {
  const std::optional<Layout> layout = x.layout().viewed(sizes);
  assert(layout && "view of a tensor whose strides do not allow it");
  return x.recorder().emit_view(OpKind::kView, x, *layout);
}
Value view(Value x, SizeList sizes) { return view(std::move(x), span_of(sizes)); }

Value unsafe_view(Value x, Sizes sizes) {
  return x.recorder().emit_view(OpKind::kUnsafeView, x, inferred(sizes, x.layout().elements()));
}

Value reshape(Value x, Sizes sizes) {
  const std::optional<Layout> layout = x.layout().viewed(sizes);
  if (layout) return x.recorder().emit_view(OpKind::kView, x, *layout);
  return unsafe_view(clone_contiguous(std::move(x)), sizes);
}
Value reshape(Value x, SizeList sizes) { return reshape(std::move(x), span_of(sizes)); }

Value transpose(Value x, int a, int b) {
  const DimsAttr dims{
      {static_cast<int8_t>(positive_dim(a, x.rank())), static_cast<int8_t>(positive_dim(b, x.rank()))}};
  return x.recorder().emit_view(OpKind::kTranspose, x, x.layout().transposed(a, b), dims);
}

Value permute(Value x, std::initializer_list<int> order) {
  DimsAttr dims;
  size_t next = 0;
  for (int d : order) dims.dims.at(next++) = static_cast<int8_t>(d);
  return x.recorder().emit_view(OpKind::kPermute, x, x.layout().permuted({order.begin(), order.size()}),
                                dims);
}

Value expand(Value x, Sizes sizes) {
  return x.recorder().emit_view(OpKind::kExpand, x, x.layout().expanded(sizes));
}
Value expand(Value x, SizeList sizes) { return expand(std::move(x), span_of(sizes)); }

Value slice(Value x, int dim, int64_t start, int64_t length, int64_t step) {
  const int positive = positive_dim(dim, x.rank());
  assert(start >= 0 && start + (length - 1) * step < std::max<int64_t>(x.size(positive), 1));
  if (length == x.size(positive)) return x.recorder().emit_view(OpKind::kAlias, x, x.layout());
  return x.recorder().emit_view(OpKind::kSlice, x, x.layout().sliced(positive, length, step),
                                SliceAttr{.dim = positive, .start = start, .step = step});
}

Value slice_or_alias(Value x, int dim, int64_t start, int64_t length) {
  if (start == 0 && length == x.size(dim)) return x.recorder().emit_view(OpKind::kAlias, x, x.layout());
  return slice(std::move(x), dim, start, length);
}

Value select(Value x, int dim, int64_t index) {
  const int positive = positive_dim(dim, x.rank());
  return x.recorder().emit_view(OpKind::kSelect, x, x.layout().selected(positive),
                                SliceAttr{.dim = positive, .start = index});
}

Value unsqueeze(Value x, int dim) {
  const int positive = positive_dim(dim, x.rank() + 1);
  return x.recorder().emit_view(OpKind::kUnsqueeze, x, x.layout().unsqueezed(positive),
                                SliceAttr{.dim = positive});
}

Value squeeze(Value x, int dim) {
  const int positive = positive_dim(dim, x.rank());
  return x.recorder().emit_view(OpKind::kSqueeze, x, x.layout().squeezed(positive),
                                SliceAttr{.dim = positive});
}

std::vector<Value> split(Value x, Sizes lengths, int dim) {
  const int positive = positive_dim(dim, x.rank());
  std::vector<Layout> layouts;
  for (int64_t length : lengths) layouts.push_back(x.layout().sliced(positive, length));
  return x.recorder().emit_views(OpKind::kSplit, x, layouts, SliceAttr{.dim = positive});
}

std::vector<Value> chunk(Value x, int64_t count, int dim) {
  const int64_t length = divide_up(x.size(dim), count);
  std::vector<int64_t> lengths;
  for (int64_t left = x.size(dim); left > 0; left -= length) lengths.push_back(std::min(left, length));
  return split(std::move(x), lengths, dim);
}

std::vector<Value> unbind(Value x, int dim) {
  const int positive = positive_dim(dim, x.rank());
  const std::vector<Layout> layouts(static_cast<size_t>(x.size(positive)), x.layout().selected(positive));
  return x.recorder().emit_views(OpKind::kUnbind, x, layouts, SliceAttr{.dim = positive});
}

Value detach(Value x) { return x.recorder().emit_view(OpKind::kDetach, x, x.layout()); }

Value clone(Value x) { return x.recorder().emit(OpKind::kClone, {&x}, {x.layout().like(), x.dtype()}); }

Value clone_contiguous(Value x) {
  return x.recorder().emit(OpKind::kClone, {&x}, {Layout::contiguous(x.layout().shape()), x.dtype()});
}

Value contiguous(Value x) {
  if (x.layout().is_contiguous()) return x;
  return clone_contiguous(std::move(x));
}

Value cast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return x.recorder().emit(OpKind::kCast, {&x}, {x.layout().like(), dtype});
}

Value cat(std::vector<Value> parts, int dim) {
  const int positive = positive_dim(dim, parts[0].rank());
  std::vector<int64_t> sizes(parts[0].layout().shape().begin(), parts[0].layout().shape().end());
  sizes[static_cast<size_t>(positive)] = 0;
  std::vector<Value*> inputs;
  const Value* widest = &parts[0];
  for (Value& part : parts) {
    sizes[static_cast<size_t>(positive)] += part.size(positive);
    inputs.push_back(&part);
    if (result_type(*widest, part) == part.dtype()) widest = &part;
  }
  const Recorder::Result result{Layout::contiguous(sizes), widest->dtype()};
  return std::move(parts[0].recorder().emit_many(OpKind::kCat, inputs, {&result, 1},
                                                 DimAttr{.mask = dim_mask({positive}, parts[0].rank())})[0]);
}

Value stack(std::vector<Value> parts, int dim) {
  const int positive = positive_dim(dim, parts[0].rank() + 1);
  std::vector<int64_t> sizes(parts[0].layout().shape().begin(), parts[0].layout().shape().end());
  sizes.insert(sizes.begin() + positive, static_cast<int64_t>(parts.size()));
  std::vector<Value*> inputs;
  for (Value& part : parts) inputs.push_back(&part);
  const Recorder::Result result{Layout::contiguous(sizes), parts[0].dtype()};
  return std::move(
      parts[0].recorder().emit_many(OpKind::kStack, inputs, {&result, 1}, SliceAttr{.dim = positive})[0]);
}

Value repeat(Value x, Sizes times) {
  std::vector<int64_t> sizes(times.begin(), times.end());
  const size_t added = times.size() - static_cast<size_t>(x.rank());
  for (size_t i = added; i < sizes.size(); ++i) sizes[i] *= x.layout().sizes[i - added];
  return x.recorder().emit(OpKind::kRepeat, {&x}, {Layout::contiguous(sizes), x.dtype()});
}

Value pad(Value x, int64_t before, int64_t after) {
  std::vector<int64_t> sizes(x.layout().shape().begin(), x.layout().shape().end());
  sizes.back() += before + after;
  return x.recorder().emit(OpKind::kPad, {&x}, {Layout::contiguous(sizes), x.dtype()},
                           SliceAttr{.dim = x.rank() - 1, .start = before});
}

Value empty(Recorder& r, const Layout& layout, DType dtype) {
  return r.emit(OpKind::kEmpty, {}, {layout, dtype});
}
Value empty(Recorder& r, SizeList sizes, DType dtype) { return empty(r, Layout::contiguous(sizes), dtype); }
Value zeros(Recorder& r, const Layout& layout, DType dtype) {
  return r.emit(OpKind::kZeros, {}, {layout, dtype});
}
Value zeros(Recorder& r, SizeList sizes, DType dtype) { return zeros(r, Layout::contiguous(sizes), dtype); }
Value ones(Recorder& r, SizeList sizes, DType dtype) {
  return r.emit(OpKind::kOnes, {}, {Layout::contiguous(sizes), dtype});
}
Value full(Recorder& r, SizeList sizes, DType dtype) {
  return r.emit(OpKind::kFull, {}, {Layout::contiguous(sizes), dtype});
}
Value scalar_tensor(Recorder& r, DType dtype) {
  return r.emit(OpKind::kScalarTensor, {}, {Layout::contiguous(SizeList{}), dtype});
}
Value from_host(Recorder& r, SizeList sizes, DType dtype) {
  return r.emit(OpKind::kCopyToDevice, {}, {Layout::contiguous(sizes), dtype});
}
Value arange(Recorder& r, int64_t count, DType dtype) {
  return r.emit(OpKind::kArange, {}, {Layout::contiguous({count}), dtype});
}
Value empty_like(Value x) { return unary(OpKind::kEmptyLike, std::move(x)); }
Value zeros_like(Value x) { return unary(OpKind::kZerosLike, std::move(x)); }
Value ones_like(Value x) { return unary(OpKind::kOnesLike, std::move(x)); }
Value full_like(Value x) { return unary(OpKind::kFullLike, std::move(x)); }

Value view_as_complex(Value x) {
  Layout layout = x.layout().selected(-1);
  for (int i = 0; i < layout.rank; ++i) layout.strides[static_cast<size_t>(i)] /= 2;
  return x.recorder().emit_view(OpKind::kViewAsComplex, x, layout, {}, DType::kComplex64);
}

Value view_as_real(Value x) {
  Layout layout = x.layout();
  for (int i = 0; i < layout.rank; ++i) layout.strides[static_cast<size_t>(i)] *= 2;
  layout.sizes[static_cast<size_t>(layout.rank)] = 2;
  layout.strides[static_cast<size_t>(layout.rank)] = 1;
  ++layout.rank;
  return x.recorder().emit_view(OpKind::kViewAsReal, x, layout, {}, DType::kFloat32);
}

}  // namespace plimsoll::ops
