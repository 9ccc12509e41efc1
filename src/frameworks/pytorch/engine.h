// How the parameters of a run are held, gathered and reduced: the part of a training run that data
// parallelism decides. The training program asks one engine, whichever it is; degree 1 is `SingleDevice`.
#pragma once

#include <memory>
#include <vector>

#include "frameworks/pytorch/optimizers/optimizer.h"
#include "frameworks/pytorch/sharding_plan.h"
#include "model/architecture.h"
#include "program/autograd.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

class ParallelEngine : public GradientSink, public UnitHooks {
 public:
  // The dtype in which the modules see their parameters.
  virtual DType compute_dtype() const = 0;
  // In the load phase: takes over the loaded model, whose parameters are in registration order.
  virtual void take_over(std::vector<Value> parameters, std::vector<Value> buffers) = 0;
  // The same where the model was built on the meta device: no parameter has memory yet. REQUIRES
  // job.fsdp2.load is kMeta.
  virtual void take_over_meta(const std::vector<Layout>& /*layouts*/) {}
  // Marks the regions of a forward program that are units.
  virtual void mark_units(Program& /*forward*/) {}
  // What stands for parameter i in a forward pass.
  virtual Value compute_parameter(size_t i) const = 0;
  // Before each forward; `communicates`: gradients are reduced in the backward that follows.
  virtual void begin_micro_step(bool /*is_training*/, bool /*communicates*/) {}
  // The rank's own tensors that have gradients, in registration order.
  virtual std::vector<TrainedTensor> trained_tensors() const = 0;
  virtual void zero_gradients(ZeroGrad mode) = 0;
};

std::unique_ptr<ParallelEngine> make_single_device(Recorder& recorder, DType dtype);
std::unique_ptr<ParallelEngine> make_ddp(Recorder& recorder, const ResolvedJob& job);
std::unique_ptr<ParallelEngine> make_fsdp2(Recorder& recorder, const Architecture& architecture,
                                           const ResolvedJob& job, const std::vector<bool>& trainable,
                                           const ShardingPlan& plan);

}  // namespace plimsoll::pytorch
