#include <array>
#include <bit>

#include "program/backward_rules.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

void view(BackwardCall& call) {
  call.results[0] = ops::reshape(call.gradient(), call.input_info(0).layout.shape());
}

void transpose(BackwardCall& call) {
  const auto& dims = call.attributes<DimsAttr>().dims;
  call.results[0] = ops::transpose(call.gradient(), dims[0], dims[1]);
}

void permute(BackwardCall& call) {
  const DimsAttr& forward = call.attributes<DimsAttr>();
  const int rank = call.gradient().rank();
  DimsAttr inverse;
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < rank; ++i) {
    const auto to = static_cast<size_t>(forward.dims[static_cast<size_t>(i)]);
    inverse.dims[to] = static_cast<int8_t>(i);
    order[to] = i;
  }
  Value gradient = call.gradient();
  const Layout layout = gradient.layout().permuted({order.data(), static_cast<size_t>(rank)});
  call.results[0] = call.recorder.emit_view(OpKind::kPermute, gradient, layout, inverse);
}

void expand(BackwardCall& call) {
  call.results[0] = ops::sum_to(call.gradient(), call.input_info(0).layout.shape());
}

// zeros of the input's sizes, into which the gradient is copied.
void into_zeros(BackwardCall& call, OpKind kind) {
  Value gradient = call.gradient();
  const Layout layout = Layout::contiguous(call.input_info(0).layout.shape());
  call.results[0] =
      call.recorder.emit(kind, {&gradient}, {layout, gradient.dtype()}, call.attributes<SliceAttr>());
}
void slice(BackwardCall& call) { into_zeros(call, OpKind::kSliceBackward); }
void select(BackwardCall& call) { into_zeros(call, OpKind::kSelectBackward); }

// CopySlices around CopyBackwards: the gradient of the whole is copied, the copied-over part is taken out of
// it as the source's gradient, and replaced by zeros in it. Source: torch/csrc/autograd/functions/tensor.cpp.
void copy_into_slice(BackwardCall& call) {
  const SliceAttr& slice = call.attributes<SliceAttr>();
  const TensorInfo& source = call.input_info(1);
  Value whole = ops::copy_(ops::empty(call.recorder, call.input_info(0).layout, call.gradient().dtype()),
                           call.gradient());
  Value part = ops::slice(whole, slice.dim, slice.start, source.layout.size(slice.dim));
  Value of_source = ops::clone(part);
  if (call.needs(0)) {
    call.results[0] =
        ops::copy_into_slice_(std::move(whole), ops::zeros_like(of_source), slice.dim, slice.start);
  }
  if (call.needs(1)) call.results[1] = ops::cast(std::move(of_source), source.dtype);
}

void unsqueeze(BackwardCall& call) {
  call.results[0] = ops::squeeze(call.gradient(), call.attributes<SliceAttr>().dim);
}
void squeeze(BackwardCall& call) {
  call.results[0] = ops::unsqueeze(call.gradient(), call.attributes<SliceAttr>().dim);
}

// Gradients of several outputs joined again; outputs that got none count as zeros.
std::vector<Value> all_gradients(BackwardCall& call) {
  std::vector<Value> parts;
  for (size_t i = 0; i < call.gradient_count(); ++i) {
    const TensorInfo& info = call.output_info(i);
    parts.push_back(call.gradient(i)
                        ? call.gradient(i)
                        : ops::zeros(call.recorder, Layout::contiguous(info.layout.shape()), info.dtype));
  }
  return parts;
}
void split(BackwardCall& call) {
  call.results[0] = ops::cat(all_gradients(call), call.attributes<SliceAttr>().dim);
}
void unbind(BackwardCall& call) {
  call.results[0] = ops::stack(all_gradients(call), call.attributes<SliceAttr>().dim);
}

void cast(BackwardCall& call) { call.results[0] = ops::cast(call.gradient(), call.input_info(0).dtype); }

void cat(BackwardCall& call) {
  const uint32_t mask = call.attributes<DimAttr>().mask;
  const int dim = static_cast<int>(std::countr_zero(mask));
  int64_t start = 0;
  for (size_t i = 0; i < call.op.input_count; ++i) {
    const int64_t length = call.input_info(i).layout.size(dim);
    if (call.needs(i)) call.results[i] = ops::slice(call.gradient(), dim, start, length);
    start += length;
  }
}

void stack(BackwardCall& call) {
  std::vector<Value> parts = ops::unbind(call.gradient(), call.attributes<SliceAttr>().dim);
  for (size_t i = 0; i < call.op.input_count; ++i)
    if (call.needs(i)) call.results[i] = std::move(parts[i]);
}

// Each repeated dim is split in two, the copies' one is summed.
void repeat(BackwardCall& call) {
  const Layout& input = call.input_info(0).layout;
  Value gradient = call.gradient();
  std::vector<int64_t> sizes;
  uint32_t copies = 0;
  const int added = gradient.rank() - input.rank;
  for (int i = 0; i < gradient.rank(); ++i) {
    const int64_t size = i < added ? 1 : input.size(i - added);
    const int64_t times = gradient.size(i) / size;
    if (times != 1) {
      copies |= 1U << sizes.size();
      sizes.push_back(times);
    }
    if (i >= added) sizes.push_back(size);
  }
  gradient = ops::reshape(std::move(gradient), sizes);
  call.results[0] = copies ? ops::sum_mask(std::move(gradient), copies, false) : std::move(gradient);
}

// constant_pad_nd by the negated amounts: what lies between, copied.
void pad(BackwardCall& call) {
  const SliceAttr& attr = call.attributes<SliceAttr>();
  const Layout layout =
      call.gradient().layout().sliced(attr.dim, call.input_info(0).layout.size(attr.dim)).like();
  Value gradient = call.gradient();
  const DType dtype = gradient.dtype();
  call.results[0] = call.recorder.emit(OpKind::kPad, {&gradient}, {layout, dtype},
                                       SliceAttr{.dim = attr.dim, .start = -attr.start});
}

void view_as_complex(BackwardCall& call) {
  call.results[0] = ops::view_as_real(ops::contiguous(call.gradient()));
}
void view_as_real(BackwardCall& call) {
  call.results[0] = ops::view_as_complex(ops::contiguous(call.gradient()));
}

}  // namespace

void add_view_rows(const SetRow& set) {
  set(OpKind::kView, {.backward = view});
  set(OpKind::kUnsafeView, {.backward = view});
  set(OpKind::kTranspose, {.backward = transpose});
  set(OpKind::kPermute, {.backward = permute});
  set(OpKind::kExpand, {.backward = expand});
  set(OpKind::kSlice, {.backward = slice});
  set(OpKind::kSelect, {.backward = select});
  set(OpKind::kCopyIntoSlice, {.backward = copy_into_slice});
  set(OpKind::kUnsqueeze, {.backward = unsqueeze});
  set(OpKind::kSqueeze, {.backward = squeeze});
  set(OpKind::kSplit, {.backward = split});
  set(OpKind::kUnbind, {.backward = unbind});
  set(OpKind::kAlias, {.backward = passes_on});
  set(OpKind::kBoundary, {.backward = passes_on});
  set(OpKind::kClone, {.backward = passes_on});
  set(OpKind::kCast, {.backward = cast});
  set(OpKind::kPad, {.backward = pad});
  set(OpKind::kCat, {.backward = cat});
  set(OpKind::kStack, {.backward = stack});
  set(OpKind::kRepeat, {.backward = repeat});
  set(OpKind::kViewAsComplex, {.backward = view_as_complex});
  set(OpKind::kViewAsReal, {.backward = view_as_real});
}

}  // namespace plimsoll
