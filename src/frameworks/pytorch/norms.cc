#include <cassert>

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// x * rsqrt(mean(x^2) + eps), with the locals of the Python code alive as there.
struct Normalised {
  Value hidden;
  Value variance;
};
Normalised normalise(Eager& e, Value hidden) {
  Normalised n;
  n.variance = ops::mean(e.pow(hidden, 2), {-1}, true);
  Value scale = e.rsqrt(ops::add(n.variance, 1e-6));
  n.hidden = ops::mul(std::move(hidden), std::move(scale));
  return n;
}

Value rms(Eager& e, const Value& x) {
  Normalised n = normalise(e, ops::cast(x, DType::kFloat32));
  Value weight = e.parameter("weight");
  return ops::mul(std::move(weight), ops::cast(n.hidden, x.dtype()));
}

}  // namespace

Value norm(Eager& e, const Family& family, std::string_view name, const Value& x) {
  if (family.norm == NormVariant::kLayerNorm) return e.layer_norm(name, x);
  const Eager::Module scope(e, name);
  switch (family.norm) {
    case NormVariant::kRms:
      return rms(e, x);
    default:
      assert(false && "norm variant without a recipe");
  }
  return x;
}

}  // namespace plimsoll::pytorch
