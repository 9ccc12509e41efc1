#include "model/architecture.h"

namespace plimsoll {

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_pytorch_tanh";
    case Activation::kGeluNew:
      return "gelu_new";
    case Activation::kRelu:
      return "relu";
    case Activation::kQuickGelu:
      return "quick_gelu";
    case Activation::kTanh:
      return "tanh";
    case Activation::kGeluFast:
      return "gelu_fast";
    case Activation::kGeluBloom:
      return "bloom_gelu";
  }
  return "unknown";
}

int64_t ParameterTensor::elements() const {
  int64_t n = 1;
  for (int64_t size : shape) n = saturating_multiply(n, size);
  return n;
}

int64_t BufferTensor::elements() const {
  int64_t n = 1;
  for (int64_t size : shape) n = saturating_multiply(n, size);
  return n;
}

int64_t Architecture::parameter_count() const {
  int64_t n = 0;
  for (const ParameterTensor& p : parameters) n = saturating_add(n, p.elements());
  return n;
}

int64_t Architecture::stored_count() const {
  int64_t n = parameter_count();
  for (const BufferTensor& b : buffers) {
    if (b.is_persistent) n = saturating_add(n, b.elements());
  }
  return n;
}

int64_t Architecture::active_parameter_count() const {
  int64_t n = 0;
  for (const ParameterTensor& p : parameters) {
    if (p.is_expert && p.layer && layers[static_cast<size_t>(*p.layer)].moe) {
      const Moe& moe = *layers[static_cast<size_t>(*p.layer)].moe;
      n = saturating_add(n, p.elements() / moe.experts * moe.experts_per_token);
    } else {
      n = saturating_add(n, p.elements());
    }
  }
  return n;
}

}  // namespace plimsoll
