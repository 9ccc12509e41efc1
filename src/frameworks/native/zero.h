// ZeRO on flat units, as the native runtime runs it: what each rank holds of parameters, gradients and
// optimizer states, when a unit is gathered and given back, when its gradients are reduced.
//
//   stage   parameters            gradients, fp32                          optimizer states, masters
//   0       whole                 whole; summed after the last micro-batch  whole
//   1       whole                 whole until then, the rank's part after   the rank's part
//   2       whole                 the rank's part; a unit's whole for the   the rank's part
//                                 time of its backward
//   3       the rank's part; a    as stage 2                                the rank's part
//           unit's whole while it
//           is computed
//
// Offloaded (offload.optimizer), the part that gradients are reduced to goes on to the host, and there the
// optimizer works (optimizer_states.h). Offloaded parameters (stage 3) have their parts on the host: a unit's
// is copied to the device two units ahead. On one rank the part is the whole.
//
// Each unit is its own bucket. A reduction is in flight while the next unit's backward runs: its buffers are
// given back when the next one begins. Stage 3 gathers one unit ahead, in both directions.
// Source: Rajbhandari et al., arXiv:1910.02054; the schedule is our own. One rank is stage 0.
// Does not model: uneven shards (units are padded, units.h).
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "frameworks/native/optimizer_states.h"
#include "frameworks/native/units.h"
#include "program/autograd.h"
#include "strategy/job.h"

namespace plimsoll::native {

// Tensors of a unit in the complete program. All flat ones are [elements] or [elements / ranks].
struct UnitTensors {
  Unit unit;
  TensorId whole;   // in the dtype of the computation; stage 3: its storage comes and goes
  TensorId shard;   // the rank's part: a tensor of its own in stage 3, else a view of `whole`
  TensorId master;  // fp32, what the optimizer changes; `shard` when that is fp32 and no farther
  std::vector<UnitState> states;  // fp32; like `master` where they are divided
  TensorId gradient;              // fp32, like `master`: there between the last backward and the step
  std::vector<TensorId> staging;  // fp32: where load_weights puts each parameter, as unit.tensors
};

class Zero : public GradientSink, public UnitHooks {
 public:
  Zero(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job, int64_t rank);

  // ---- phases ----
  void load();  // writes the load phase: weights, masters, states
  // Marks the regions of a forward program that are units.
  void mark_units(Program& forward);
  void begin_micro_step(bool is_last) { is_last_ = is_last; }
  // Norm, clipping, update, gathering of updated parameters; lets go of the gradients.
  void step();

  // The whole tensor of parameter i, which a forward pass reads.
  const Value& parameter(size_t i) const { return parameters_[i]; }
  std::vector<UnitTensors> tensors() const;
  // The sum of the squared gradients before clipping, an fp64 scalar that each step overwrites.
  TensorId squared_norm() const { return optimizer_.squared_norm(); }

  // ---- hooks ----
  void accumulate(TensorId parameter, Value gradient) override;
  void before_forward(RegionId region) override;
  void after_forward(RegionId region) override;
  void before_backward(RegionId region) override;
  void after_backward(RegionId region) override;
  void at_backward_end() override;

 private:
  struct State {
    Unit unit;
    Value whole, shard;
    Value arrived;  // of a part that lives on the host: its copy on the device, for a gather
    std::vector<TensorId> staging;
    Value whole_gradient;               // fp32 [elements]
    std::vector<Value> gradient_views;  // of whole_gradient, in the parameters' shapes
    Value gradient;                     // fp32, like the master
    TensorId last_gradient;             // that step() reads
    bool is_gathered = false;
    int regions = 0;       // of the forward program
    int regions_left = 0;  // whose backward hasn't ended
  };
  // A reduction in flight: what it reads and writes.
  struct Reduction {
    size_t unit = 0;
    Value input, output;
  };
  // A reduced gradient on its way to the host.
  struct Departure {
    size_t unit = 0;
    Value device, host;
  };

  bool is_sharded(int64_t from_stage) const { return stage_ >= from_stage; }
  bool is_shard_on_host() const { return job_.offload.parameters != OffloadTarget::kNone; }
  bool comes_and_goes() const { return is_sharded(3) || is_shard_on_host(); }  // the whole of a unit
  bool reduces_each_time() const;  // in every micro-batch, not in the last alone
  int64_t shards() const { return is_sharded(1) ? ranks_ : 1; }
  int64_t shard_elements(const State& s) const { return s.unit.elements / shards(); }
  int64_t first_element(const State& s) const { return is_sharded(1) ? rank_ * shard_elements(s) : 0; }
  Value part_of(const Value& whole, const State& s);  // the rank's
  State& state_of(RegionId region) { return states_[unit_of_region_[region.value]]; }

  void load_unit(State& s);
  Value make(const State& s, int64_t elements, DType dtype, Category category, bool is_zero);
  std::vector<Value> views_of(const Value& flat, const State& s);

  void fetch(State& s);
  void gather(State& s);
  void give_back(State& s);
  void prefetch(RegionId region, int64_t direction);
  void collective(OpKind kind, Stream stream, std::initializer_list<const Value*> tensors);

  void begin_gradient(State& s);
  void reduce(size_t unit);
  void finish_reduction();
  void depart(size_t unit, Value gradient);
  void arrive();

  Recorder& r_;
  const Architecture& a_;
  const ResolvedJob& job_;
  int64_t ranks_, rank_, stage_;
  DType dtype_;
  std::vector<State> states_;
  std::vector<Value> parameters_;                      // by index in the architecture
  std::unordered_map<uint32_t, size_t> parameter_of_;  // by tensor
  std::vector<std::pair<size_t, size_t>> place_of_;    // by parameter: unit, index in it
  std::vector<size_t> unit_of_region_;
  std::vector<bool> is_embedding_;  // by region
  std::optional<Reduction> reduction_;
  std::optional<Departure> departure_;
  OptimizerStates optimizer_;
  bool is_last_ = true;
};

}  // namespace plimsoll::native
