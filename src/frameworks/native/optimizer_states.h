// Masters and optimizer states of the native runtime, where they live, and the optimizer's step.
//
//   offload.optimizer   masters, states   gradients   update
//   none                device            device      on the device
//   host                host              host        on the host, parameters are copied back
//   disk                a file            host        the same, in buffers on the host: while a unit is
//                                                     updated, the next is read and the one before written
//
// What is copied to or from the device, read or written is page-locked (offload.pin_memory); what never
// leaves the host is pageable. On disk each tensor begins and ends at a multiple of kDiskAlignment.
// Source: ZeRO-Offload, arXiv:2101.06840; ZeRO-Infinity, arXiv:2104.07857. The schedule is our own.
#pragma once

#include <functional>
#include <string>
#include <vector>

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
  std::function<void(const Value& scalar)> sum_over_ranks;  // empty: every rank has whole gradients
  std::function<void(size_t unit)> updated;  // the unit's parameters on the device are new, or soon will be
};

class OptimizerStates {
 public:
  OptimizerStates(Recorder& recorder, const ResolvedJob& job) : r_(recorder), job_(job) {}

  bool is_on_host() const { return job_.offload.optimizer != OffloadTarget::kNone; }  // gradients are, then
  bool is_on_disk() const { return job_.offload.optimizer == OffloadTarget::kDisk; }
  bool has_own_master() const;

  // The load phase: a unit, with the rank's part of it as the computation reads it, and in fp32 where the
  // master is another tensor than that.
  void add(const std::string& name, const Value& shard, Value part);
  void end_load();

  // Norm, clipping and update of all units.
  void step(std::vector<Value> gradients, const StepHooks& hooks);

  TensorId master(size_t unit) const { return units_[unit].master.id(); }
  std::vector<TensorId> states(size_t unit) const;
  // The sum of the squared gradients before clipping, an fp32 scalar that each step overwrites.
  TensorId squared_norm() const { return squared_norm_.id(); }

 private:
  struct Unit {
    ModuleId module;
    Value shard, master;
    std::vector<Value> states;
    // During its update, of offloaded ones: what is copied, read or written.
    Value master_buffer, narrow;
    std::vector<Value> state_buffers;
  };
  Value make(int64_t elements, DType dtype, Category category, Tier tier, bool is_zero);
  Value on_disk(int64_t elements, Category category);
  void pad(const Value& x);
  void write(const Value& place, const Value& buffer);
  Value read(const Value& place);
  void add_to_disk(Unit& unit, const Value& part);
  void read(Unit& unit);
  void write_norm(const std::vector<Value>& gradients, const StepHooks& hooks);
  void update(Unit& unit, const Value& gradient);
  void send_back(Unit& unit);
  static void let_go(Unit& unit);

  Recorder& r_;
  const ResolvedJob& job_;
  std::vector<Unit> units_;
  Value squared_norm_;
};

}  // namespace plimsoll::native
