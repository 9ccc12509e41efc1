// Source: transformers/activations.py; transformers/models/bloom/modeling_bloom.py (GeLUFunction).
#include <cassert>
#include <cmath>
#include <numbers>

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// NewGELUActivation: 0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3.0))))
Value gelu_new(Eager& e, const Value& x) {
  Value half = ops::mul(x, 0.5);
  Value cube = ops::mul(e.pow(x, 3), 0.044715);
  Value inner = ops::mul(ops::add(x, std::move(cube)), std::sqrt(2 * std::numbers::inv_pi));
  return ops::mul(std::move(half), ops::add(ops::tanh(std::move(inner)), 1.0));
}

// FastGELUActivation: 0.5 * x * (1.0 + tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))
Value gelu_fast(const Value& x) {
  Value half = ops::mul(x, 0.5);
  Value scaled = ops::mul(x, 0.7978845608);
  Value square = ops::mul(ops::mul(x, 0.044715), x);
  Value inner = ops::mul(std::move(scaled), ops::add(std::move(square), 1.0));
  return ops::mul(std::move(half), ops::add(ops::tanh(std::move(inner)), 1.0));
}

// QuickGELUActivation: x * sigmoid(1.702 * x)
Value quick_gelu(const Value& x) { return ops::mul(x, ops::sigmoid(ops::mul(x, 1.702))); }

// GeLUFunction.forward, without a graph: x * 0.5 * (1.0 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
Value gelu_bloom_forward(const Value& x) {
  const With<bool> no_grad(x.recorder().is_grad_enabled, false);
  Value half = ops::mul(x, 0.5);
  Value scaled = ops::mul(x, 0.79788456);
  Value inner = ops::add(ops::mul(ops::mul(x, 0.044715), x), 1.0);
  inner = ops::tanh(ops::mul(std::move(scaled), std::move(inner)));
  return ops::mul(std::move(half), ops::add(std::move(inner), 1.0));
}

}  // namespace

Value activation(Eager& e, std::string_view name, Activation kind, const Value& x) {
  const Eager::Module scope(e, name);
  switch (kind) {
    case Activation::kSilu:
      return ops::silu(x);
    case Activation::kGelu:
    case Activation::kGeluTanh:
      return ops::gelu(x);
    case Activation::kGeluNew:
      return gelu_new(e, x);
    case Activation::kGeluFast:
      return gelu_fast(x);
    case Activation::kQuickGelu:
      return quick_gelu(x);
    case Activation::kGeluBloom:
      return ops::gelu_function(gelu_bloom_forward(x), x);
    case Activation::kRelu:
      return ops::relu(x);
    case Activation::kTanh:
      return ops::tanh(x);
    default:
      assert(false && "activation without a recipe");
  }
  return x;
}

}  // namespace plimsoll::pytorch
