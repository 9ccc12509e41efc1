// Source: transformers/models/{llama,olmo2,gemma,cohere,stablelm}/modeling_*.py. Locals of the Python code
// stay alive as there; what is saved for the backward follows from the ops.
#include <fmt/format.h>

#include <cassert>

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

constexpr double kEpsilon = 1e-6;  // of no consequence to memory

// LlamaRMSNorm and Olmo2RMSNorm, up to the weight; `variance` stays in scope.
struct Normalised {
  Value hidden, variance;
};
Normalised normalised(Eager& e, const Value& x) {
  Normalised n{.hidden = ops::cast(x, DType::kFloat32)};
  n.variance = ops::mean(e.pow(n.hidden, 2), {-1}, true);
  Value scale = e.rsqrt(ops::add(n.variance, kEpsilon));
  n.hidden = ops::mul(n.hidden, std::move(scale));
  return n;
}

Value rms(Eager& e, const Value& x) {
  const Normalised n = normalised(e, x);
  return ops::mul(e.parameter("weight"), ops::cast(n.hidden, x.dtype()));
}

Value rms_weight_first(Eager& e, const Value& x) {
  const Normalised n = normalised(e, x);
  return ops::cast(ops::mul(e.parameter("weight"), n.hidden), x.dtype());
}

// _norm(x.float()) of Gemma and Llama 4
Value normalised_apart(Eager& e, const Value& x) {
  const Value wide = ops::cast(x, DType::kFloat32);
  Value variance = ops::mean(e.pow(wide, 2), {-1}, true);
  Value scale = e.rsqrt(ops::add(std::move(variance), kEpsilon));
  return ops::mul(wide, std::move(scale));
}

// GemmaRMSNorm: _norm(x.float()) * (1.0 + weight.float())
Value rms_plus_one(Eager& e, const Value& x) {
  Value output = normalised_apart(e, x);
  Value weight = ops::add(ops::cast(e.parameter("weight"), DType::kFloat32), 1.0);
  output = ops::mul(output, std::move(weight));
  return ops::cast(output, x.dtype());
}

// Llama4TextRMSNorm: _norm(x.float()).type_as(x) * weight
Value rms_weight_last(Eager& e, const Value& x) {
  const Value output = norm_without_weight(e, x);
  return ops::mul(output, e.parameter("weight"));
}

// CohereLayerNorm
Value centred(Eager& e, const Value& x) {
  Value hidden = ops::cast(x, DType::kFloat32);
  const Value mean = ops::mean(hidden, {-1}, true);
  Value square = e.pow(ops::sub(hidden, mean), 2);
  const Value variance = ops::mean(std::move(square), {-1}, true);
  Value difference = ops::sub(hidden, mean);
  Value scale = e.rsqrt(ops::add(variance, kEpsilon));
  hidden = ops::mul(std::move(difference), std::move(scale));
  hidden = ops::mul(ops::cast(e.parameter("weight"), DType::kFloat32), hidden);
  return ops::cast(hidden, x.dtype());
}

}  // namespace

Value norm(Eager& e, const Family& family, std::string_view name, const Value& x) {
  if (family.norm == NormVariant::kLayerNorm) return e.layer_norm(name, x);
  const Eager::Module scope(e, name);
  switch (family.norm) {
    case NormVariant::kRms:
      return rms(e, x);
    case NormVariant::kRmsWeightFirst:
      return rms_weight_first(e, x);
    case NormVariant::kRmsPlusOne:
      return rms_plus_one(e, x);
    case NormVariant::kRmsWeightLast:
      return rms_weight_last(e, x);
    case NormVariant::kCohere:
      return centred(e, x);
    case NormVariant::kLayerNorm:
      break;
  }
  assert(false && "norm variant without a recipe");
  return x;
}

Value norm_without_weight(Eager& e, const Value& x) { return ops::cast(normalised_apart(e, x), x.dtype()); }

// StableLmLayerNormPerHead on [b, heads, s, d]
Value norm_of_each_head(Eager& e, std::string_view name, const Value& x) {
  const Eager::Module scope(e, name);
  std::vector<Value> heads = ops::chunk(x, x.size(1), 1);
  std::vector<Value> normed;
  for (size_t i = 0; i < heads.size(); ++i)
    normed.push_back(e.layer_norm(fmt::format("norms.{}", i), heads[i]));
  return e.cat(std::move(normed), 1);
}

}  // namespace plimsoll::pytorch
