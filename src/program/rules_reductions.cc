#include <bit>

#include "program/backward_rules.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

// The gradient of a sum, spread over the reduced dims as a view.
Value spread(BackwardCall& call) {
  const DimAttr& attr = call.attributes<DimAttr>();
  const Layout& input = call.input_info(0).layout;
  Value gradient = call.gradient();
  if (!attr.keep_dims)
    for (int i = 0; i < input.rank; ++i)
      if ((attr.mask >> static_cast<unsigned>(i)) & 1U) gradient = ops::unsqueeze(std::move(gradient), i);
  return ops::expand(std::move(gradient), input.shape());
}

void sum(BackwardCall& call) { call.results[0] = spread(call); }

void mean(BackwardCall& call) {  // expand(grad) / n
  const int64_t n =
      call.input_info(0).layout.elements() / std::max<int64_t>(call.output_info(0).layout.elements(), 1);
  call.results[0] = ops::with_scalar(OpKind::kDivide, spread(call), static_cast<double>(n));
}

template <OpKind kKind>
void softmax(BackwardCall& call) {
  Value gradient = call.gradient();
  Value result = call.output(0);
  const Layout layout = Layout::contiguous(gradient.layout().shape());
  call.results[0] = call.recorder.emit(kKind, {&gradient, &result}, {layout, call.input_info(0).dtype},
                                       call.attributes<DimAttr>());
}

}  // namespace

void add_reduction_rows(const SetRow& set) {
  set(OpKind::kSum, {.backward = sum});
  set(OpKind::kMean, {.backward = mean});
  set(OpKind::kSoftmax, {.saves = keeps_output, .backward = softmax<OpKind::kSoftmaxBackward>});
  set(OpKind::kSafeSoftmax, {.saves = keeps_output, .backward = softmax<OpKind::kSoftmaxBackward>});
  set(OpKind::kLogSoftmax, {.saves = keeps_output, .backward = softmax<OpKind::kLogSoftmaxBackward>});
}

}  // namespace plimsoll
