// What one optimizer's step allocates: its states in the first step, its temporaries in every one. One class
// an optimizer, one row each in optimizer.cc; clipping and the loss scale are optimizer_step.h's.
//
//   PLIMSOLL_TRY(optimizer, make_optimizer({recorder, architecture, job}));
//   optimizer->step(engine.trained_tensors());
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "program/recorder.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

struct TrainedTensor {
  Value parameter;  // the rank's own (a shard under FSDP)
  Value gradient;
};

class OptimizerRecipe {
 public:
  virtual ~OptimizerRecipe() = default;
  // REQUIRES the same parameters in every call.
  virtual void step(const std::vector<TrainedTensor>& tensors) = 0;
  // Its kernel divides by the loss scale itself (_step_supports_amp_scaling).
  virtual bool unscales_gradients() const { return false; }
};

// What the recipes are made with.
struct OptimizerContext {
  Recorder& recorder;
  const Architecture& architecture;
  const ResolvedJob& job;
  // The loop lists the states after every step, so that a state tensor that a step replaces lives until the
  // step is over.
  bool lists_states = false;
};

// Errors: an optimizer, or its combination with the job's parallelism, that has no recipe.
Result<void> check_optimizer(const ResolvedJob& job);
// Null for no step. Errors: check_optimizer's.
Result<std::unique_ptr<OptimizerRecipe>> make_optimizer(const OptimizerContext& context);

// ---- for the recipes ----

// An operator on many tensors that makes one like each of them.
std::vector<Value> foreach_like(Recorder& recorder, OpKind kind, std::vector<Value> inputs);
// An operator that changes the first of these tensors and allocates nothing.
void update(Recorder& recorder, OpKind kind, const std::vector<TrainedTensor>& tensors);
void update(const Value& changed, std::initializer_list<const Value*> read = {});
// What is made in this scope are states of the parameter.
class StateScope {
 public:
  explicit StateScope(const Value& parameter)
      : category_(parameter.recorder().category, Category::kOptimizerState),
        owner_(parameter.recorder().module, parameter.recorder().program().storage_of(parameter.id()).owner) {
  }

 private:
  With<Category> category_;
  With<ModuleId> owner_;
};
// A state of the parameter, laid out like it.
Value zeros_state(const Value& parameter, DType dtype);
// tensor.norm(2)
Value norm(Value x);

// Tensors of one dtype: foreach and fused operators take one group at a time, in the order in which the
// dtypes first occur. Source: _group_tensors_by_device_and_dtype in torch/utils/_foreach_utils.py.
std::vector<std::vector<size_t>> groups_by_dtype(const std::vector<Value>& tensors);

// ---- the recipes, one file each ----
using OptimizerFactory = std::unique_ptr<OptimizerRecipe> (*)(const OptimizerContext&);
std::unique_ptr<OptimizerRecipe> make_adamw(const OptimizerContext& context);
std::unique_ptr<OptimizerRecipe> make_sgd(const OptimizerContext& context);
std::unique_ptr<OptimizerRecipe> make_sgd_momentum(const OptimizerContext& context);
std::unique_ptr<OptimizerRecipe> make_adafactor(const OptimizerContext& context);
std::unique_ptr<OptimizerRecipe> make_adam8bit(const OptimizerContext& context);
std::unique_ptr<OptimizerRecipe> make_lion(const OptimizerContext& context);
std::unique_ptr<OptimizerRecipe> make_muon(const OptimizerContext& context);

}  // namespace plimsoll::pytorch
