#include "runtime/model_host.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cmath>

#include "runtime/rotary_table.h"

namespace plimsoll::runtime {
namespace {

// A seed of its own for each parameter. Source: the finalizer of SplitMix64 (Steele et al., 2014).
uint64_t mixed(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

double spread_of(const Architecture& a, const ParameterTensor& p) {
  const bool is_residual = a.family == "gpt2" && p.name.ends_with("c_proj.weight");
  const double scale = is_residual ? 1 / std::sqrt(2.0 * static_cast<double>(a.layers.size())) : 1;
  return a.numerics.initializer_range * scale;
}

}  // namespace

WeightSource fresh_weights(const Architecture& architecture, uint64_t seed) {
  return [&architecture, seed](const ParameterTensor& p, size_t index, at::Tensor& to) -> Result<void> {
    if (p.name.ends_with(".bias")) {
      to.zero_();
    } else if (p.shape.size() == 1) {
      to.fill_(1);
    } else {
      const at::Generator generator = at::detail::createCPUGenerator(mixed(seed, index));
      to.normal_(0, spread_of(architecture, p), generator);
    }
    return {};
  };
}

Result<void> ModelHost::load_weights(const std::string& unit, at::Tensor&, std::span<at::Tensor> parts) {
  for (const native::UnitTensors& u : units_) {
    if (u.unit.name != unit) continue;
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t index = u.unit.tensors[i].parameter;
      PLIMSOLL_CHECK(source_(a_.parameters[index], index, parts[i]));
    }
    return {};
  }
  return fail({.message = fmt::format("the program loads a unit \"{}\" that the model does not have", unit),
               .is_internal = true});
}

Result<void> ModelHost::fill_rotary_table(at::Tensor& cos, at::Tensor& sin) {
  plimsoll::runtime::fill_rotary_table(a_, cos, sin);
  return {};
}

Result<void> ModelHost::check_norm(double squared) {
  wrong_norm_.reset();
  if (std::isfinite(squared)) return {};
  wrong_norm_ = std::sqrt(squared);
  return fail({.message = "the gradient norm is no number"});
}

}  // namespace plimsoll::runtime
