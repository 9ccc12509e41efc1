#include "frameworks/pytorch/engine.h"

#include <map>

#include "program/ops.h"

namespace plimsoll::pytorch {

namespace {

class SingleDevice : public ParallelEngine {
 public:
  SingleDevice(Recorder& recorder, DType dtype) : r_(recorder), dtype_(dtype) {}

  DType compute_dtype() const override { return dtype_; }
  void take_over(std::vector<Value> parameters, std::vector<Value>) override {
    parameters_ = std::move(parameters);
  }
  Value compute_parameter(size_t i) const override { return parameters_[i]; }

  void accumulate(TensorId parameter, Value gradient) override {
    accumulate_gradient(r_, parameter, std::move(gradient), gradients_[parameter.value], Category::kGradient);
  }

  std::vector<TrainedTensor> trained_tensors() const override {
    std::vector<TrainedTensor> tensors;
    for (const Value& p : parameters_)
      if (const auto g = gradients_.find(p.id().value); g != gradients_.end())
        tensors.push_back({.parameter = p, .gradient = g->second});
    return tensors;
  }

  void zero_gradients(ZeroGrad mode) override {
    if (mode == ZeroGrad::kSetToNone) gradients_.clear();
  }

 private:
  Recorder& r_;
  DType dtype_;
  std::vector<Value> parameters_;
  std::map<uint32_t, Value> gradients_;  // by parameter tensor
};

}  // namespace

std::unique_ptr<ParallelEngine> make_single_device(Recorder& recorder, DType dtype) {
  return std::make_unique<SingleDevice>(recorder, dtype);
}

}  // namespace plimsoll::pytorch
