// torch.optim.Muon for the matrices of the hidden layers, then torch.optim.AdamW (foreach) for the rest:
// embedding, head, vectors. Source: torch/optim/_muon.py and the use that its documentation shows.
#include <algorithm>
#include <set>

#include "frameworks/pytorch/optimizers/optimizer.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

constexpr int kNewtonSchulzSteps = 5;

// _zeropower_via_newtonschulz, which works in bf16 on the wide orientation.
Value orthogonalised(const Value& gradient) {
  const bool is_tall = gradient.size(0) > gradient.size(1);
  Value x = ops::cast(gradient, DType::kBFloat16);
  if (is_tall) x = ops::transpose(x, 0, 1);
  {
    const Value limit = ops::unary(OpKind::kClamp, norm(x));
    update(x, {&limit});
  }
  Value gram, gram_update;
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    gram = ops::mm(x, ops::transpose(x, 0, 1));
    gram_update = ops::addmm(gram, gram, gram);
    x = ops::addmm(x, gram_update, x);
  }
  if (is_tall) x = ops::transpose(x, 0, 1);
  return x;
}

class Muon : public OptimizerRecipe {
 public:
  explicit Muon(const OptimizerContext& context) : r_(context.recorder), rest_(make_adamw(context)) {
    for (const ParameterTensor& p : context.architecture.parameters)
      if (p.layer && p.shape.size() == 2) matrices_.insert(p.name);
  }

  void step(const std::vector<TrainedTensor>& tensors) override {
    std::vector<TrainedTensor> matrices, rest;
    for (const TrainedTensor& t : tensors) (is_matrix(t.parameter) ? matrices : rest).push_back(t);
    step_matrices(matrices);
    if (!rest.empty()) rest_->step(rest);
  }

 private:
  bool is_matrix(const Value& parameter) const {
    const Program& program = r_.program();
    return matrices_.contains(program.module_name(program.storage_of(parameter.id()).owner));
  }

  void step_matrices(const std::vector<TrainedTensor>& matrices) {
    if (momenta_.empty())
      for (const TrainedTensor& t : matrices)
        momenta_.push_back(zeros_state(t.parameter, t.gradient.dtype()));
    Value change;  // `update`: lives until the next matrix's is there
    for (size_t i = 0; i < matrices.size(); ++i) {
      update(momenta_[i], {&matrices[i].gradient});
      change = ops::binary(OpKind::kLerp, matrices[i].gradient, momenta_[i]);
      change = orthogonalised(change);
      update(matrices[i].parameter, {&change});
    }
  }

  Recorder& r_;
  std::unique_ptr<OptimizerRecipe> rest_;
  std::set<std::string, std::less<>> matrices_;
  std::vector<Value> momenta_;
};

}  // namespace

std::unique_ptr<OptimizerRecipe> make_muon(const OptimizerContext& context) {
  return std::make_unique<Muon>(context);
}

}  // namespace plimsoll::pytorch
