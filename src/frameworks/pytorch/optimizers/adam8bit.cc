// bitsandbytes' AdamW8bit: both moments as one byte an element with one fp32 scale a block; small tensors
// keep fp32 moments. Two maps of 256 fp32 values are shared by all. Source: Optimizer2State in
// bitsandbytes/optim/optimizer.py, min_8bit_size 4096, is_paged False.
#include "frameworks/pytorch/optimizers/optimizer.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

constexpr int64_t kSmallestQuantised = 4096;  // elements
constexpr int64_t kElementsPerScale = 256;
constexpr int64_t kMapValues = 256;

class Adam8bit : public OptimizerRecipe {
 public:
  explicit Adam8bit(Recorder& recorder) : r_(recorder) {}

  void step(const std::vector<TrainedTensor>& tensors) override {
    const bool is_first = states_.empty();
    for (const TrainedTensor& t : tensors) {
      if (is_first) make_state(t.parameter);
      const Value gradient = ops::contiguous(t.gradient);
      r_.emit_effect(OpKind::kBlockwiseAdam8bit, std::vector<TensorId>{t.parameter.id(), gradient.id()});
    }
  }

 private:
  void make_state(const Value& parameter) {
    const int64_t elements = parameter.layout().elements();
    if (elements < kSmallestQuantised) {
      for (int moment = 0; moment < 2; ++moment) states_.push_back(zeros_state(parameter, DType::kFloat32));
      return;
    }
    const StateScope state(parameter);
    if (maps_.empty())
      for (int moment = 0; moment < 2; ++moment) maps_.push_back(state_vector(kMapValues));
    for (int moment = 0; moment < 2; ++moment) states_.push_back(zeros_state(parameter, DType::kUInt8));
    for (int moment = 0; moment < 2; ++moment)
      states_.push_back(state_vector(divide_up(elements, kElementsPerScale)));
  }

  Value state_vector(int64_t elements) { return ops::zeros(r_, {elements}, DType::kFloat32); }

  Recorder& r_;
  std::vector<Value> states_, maps_;
};

}  // namespace

std::unique_ptr<OptimizerRecipe> make_adam8bit(const OptimizerContext& context) {
  return std::make_unique<Adam8bit>(context.recorder);
}

}  // namespace plimsoll::pytorch
