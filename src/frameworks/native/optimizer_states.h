// Masters and optimizer states of the native runtime, where they live, and the optimizer's step.
//
//   offload.optimizer   masters, states   gradients   update
//   none                device            device      on the device
//   host                host              host        on the host, parameters are copied back
//   disk                a file            host        the same, in buffers on the host: while a unit is
//                                                     updated, the next is read and the one before written
//
// What is copied to or from the device, read or written is page-locked (offload.pin_memory); what never
// leaves the host is pageable. On disk each tensor begins and ends at a multiple of kDiskAlignment. States
// that ranks don't divide (optimizers.h) are small: with disk they stay on the host. Source: ZeRO-Offload,
// arXiv:2101.06840; ZeRO-Infinity, arXiv:2104.07857. The schedule is our own.
#pragma once

#include <functional>
#include <vector>

#include "frameworks/native/adafactor.h"
#include "frameworks/native/optimizers.h"
#include "frameworks/native/units.h"
#include "model/architecture.h"
#include "program/recorder.h"
#include "strategy/job.h"

namespace plimsoll::native {

inline constexpr int64_t kDiskAlignment =
    4096;  // bytes: of what direct requests to a disk may begin and end at

Tier moved_tier(const OffloadSettings& offload);  // of host memory that is copied to or from the device
// A copy on the host, under way on the stream for that; and one into a tensor of the device.
Value copy_to_host(Value x, Category category, Tier tier);
void copy_to_device(const Value& to, Value from);

// What a step asks of whoever divides the units among ranks.
struct StepHooks {
  std::function<void(const Value& tensor)> sum_over_ranks;  // empty: every rank has whole gradients
  std::function<void(size_t unit)> updated;  // the unit's parameters on the device are new, or soon will be
};

// One of a unit's states in the complete program.
struct UnitState {
  TensorId tensor;
  StateTensor layout;
};

class OptimizerStates {
 public:
  OptimizerStates(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job)
      : r_(recorder), a_(architecture), job_(job) {}

  bool is_on_host() const { return job_.offload.optimizer != OffloadTarget::kNone; }  // gradients are, then
  bool is_on_disk() const { return job_.offload.optimizer == OffloadTarget::kDisk; }
  bool has_own_master() const;

  // The load phase: a unit, with the rank's part of it as the computation reads it, which begins with the
  // unit's element `first`, and in fp32 where the master is another tensor than that.
  void add(const Unit& unit, int64_t first, const Value& shard, Value part);
  void end_load();

  // Norm, which may end the step before anything changes, clipping and update of all units.
  void step(std::vector<Value> gradients, const StepHooks& hooks);

  TensorId master(size_t unit) const { return units_[unit].master.id(); }
  std::vector<UnitState> states(size_t unit) const;
  // The sum of the squared gradients before clipping, an fp64 scalar that each step overwrites: squares of
  // fp32 gradients don't fit into fp32.
  TensorId squared_norm() const { return squared_norm_.id(); }

 private:
  struct Held {
    Unit unit;
    ModuleId module;
    int64_t first = 0;
    Value shard, master;
    std::vector<Value> states;
    // During its update, of offloaded ones: what is copied, read or written.
    Value master_buffer, narrow;
    std::vector<Value> state_buffers;

    const Value& updated_master() const { return master_buffer ? master_buffer : master; }
  };
  Value make(int64_t elements, DType dtype, Category category, Tier tier, bool is_zero);
  Value on_disk(int64_t elements, Category category);
  void pad(const Value& x);
  void write(const Value& place, const Value& buffer);
  Value read(const Value& place);
  bool is_factored() const { return job_.optimizer.kind == OptimizerKind::kAdafactor; }
  void add_states(Held& unit);
  void add_to_disk(Held& unit, const Value& part);
  void read(Held& unit);
  void sum(const Value& tensor, const StepHooks& hooks);
  void write_norm(const std::vector<Value>& gradients, const StepHooks& hooks);
  AdafactorStep begin_factored(const std::vector<Value>& gradients, const StepHooks& hooks);
  Value copy_of_master(Held& unit);
  void update(Held& unit, const Value& gradient);
  void update_factored(AdafactorStep& step, size_t unit);
  void send_back(Held& unit);
  static void let_go(Held& unit);

  Recorder& r_;
  const Architecture& a_;
  const ResolvedJob& job_;
  std::vector<Held> units_;
  Value squared_norm_;
};

}  // namespace plimsoll::native
