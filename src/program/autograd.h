// Plays a forward program as eager PyTorch would, with autograd: every op makes a graph node that keeps what
// its backward needs, and `backward` runs the nodes in the order in which the engine would. What comes out is
// complete statements: ops, and frees at the moment the last holder (local, saved tensor, gradient,
// checkpoint) lets go.
//
//   Autograd autograd(recorder, forward, sink, hooks, options);
//   autograd.bind(forward.parameters[i], value);   // for every tensor that no op of `forward` makes
//   Value loss = autograd.forward(result_of_forward);
//   autograd.backward(std::move(loss));
//
// Rules: a node runs when all its gradients have arrived; among ready ones the latest made runs first;
// AccumulateGrad runs at once. Gradients that meet are summed in place when the first one is owned by nobody
// else and is no view. Source: torch/csrc/autograd/engine.cpp, input_buffer.cpp, saved_variable.cpp,
// torch/utils/checkpoint.py. Does not model: hooks of users, double backward, several devices, retain_graph.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "program/recorder.h"

namespace plimsoll {

// Where gradients of parameters go: AccumulateGrad and what data parallelism hangs on it.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void accumulate(TensorId parameter, Value gradient) = 0;
};

// AccumulateGrad: the first gradient is kept as it is when nobody else holds it and it is laid out like the
// parameter, later ones are added in place. Source: torch/csrc/autograd/functions/accumulate_grad.h.
void accumulate_gradient(Recorder& recorder, TensorId parameter, Value gradient, Value& kept,
                         Category category);

// What a strategy does around the calls of modules whose regions are units.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_forward(RegionId) {}
  virtual void after_forward(RegionId) {}
  virtual void before_backward(RegionId) {}  // a gradient of the unit's results has arrived
  virtual void after_backward(RegionId) {}   // the gradients of the unit's arguments are there
  virtual void at_backward_end() {}
};

struct AutogradOptions {
  bool sums_in_place = true;  // false: as under a tracing mode, every sum is a new tensor
};

class Autograd {
 public:
  Autograd(Recorder& recorder, const Program& forward, GradientSink& sink, UnitHooks* hooks,
           AutogradOptions options);
  ~Autograd();

  // The tensor of the complete program that stands for a persistent tensor of the forward program.
  void bind(TensorId forward_tensor, Value value);
  // Plays the statements up to this one; the next call and `forward` go on from there.
  void forward_until(uint32_t statement);
  // Plays all statements; locals that the forward program never drops stay held. Returns that of `result`.
  Value forward(TensorId result);
  // Plays them without a graph (evaluation).
  void forward_without_gradients();
  // The root's gradient is made as ones, as loss.backward() does; lets go of the root when done. Errors: the
  // root requires no gradient, as loss.backward() says; an op whose gradient the op table has no rule for.
  Result<void> backward(Value root);
  // A result's place in the graph, by which the result itself may be let go before its backward (Megatron's
  // deallocate_output_tensor).
  struct Root {
    uint32_t node = 0, slot = 0;
  };
  // REQUIRES that the result requires a gradient.
  Root root_of(const Value& result);
  // From a gradient that is given, as Variable._execution_engine.run_backward.
  Result<void> backward(Root root, Value gradient);
  Value local(TensorId forward_tensor) const;
  void release_locals();  // locals that were still held

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
