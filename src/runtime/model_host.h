// What a program leaves to whoever runs it, for one model: fresh weights from a seed, and the rotary table.
//
// Fresh weights as Hugging Face makes them: normal with standard deviation initializer_range, norms one,
// biases zero; GPT-2's projections into the residual stream divided by sqrt(2 x layers). Every parameter has
// a generator of its own, seeded by the seed and its place in the model, so the numbers do not depend on
// ranks, units or strategies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/native/training.h"
#include "model/architecture.h"
#include "runtime/executor.h"

namespace plimsoll::runtime {

// Fills one parameter, fp32 in its own shape.
using WeightSource =
    std::function<Result<void>(const ParameterTensor& parameter, size_t index, at::Tensor& to)>;

WeightSource fresh_weights(const Architecture& architecture, uint64_t seed);

class ModelHost final : public Host {
 public:
  // REQUIRES what it refers to outlives it.
  ModelHost(const Architecture& architecture, const std::vector<native::UnitTensors>& units,
            WeightSource source)
      : a_(architecture), units_(units), source_(std::move(source)) {}

  Result<void> load_weights(const std::string& unit, at::Tensor& whole, std::span<at::Tensor> parts) override;
  Result<void> fill_rotary_table(at::Tensor& cos, at::Tensor& sin) override;
  Result<void> check_norm(double squared) override;                 // errors: no number
  std::optional<double> wrong_norm() const { return wrong_norm_; }  // what check_norm refused

 private:
  const Architecture& a_;
  const std::vector<native::UnitTensors>& units_;
  WeightSource source_;
  std::optional<double> wrong_norm_;
};

}  // namespace plimsoll::runtime
