#include "frameworks/native/optimizer_states.h"

#include <optional>

#include "base/units.h"
#include "program/ops.h"

namespace plimsoll::native {

Tier moved_tier(const OffloadSettings& offload) {
  return offload.pin_memory ? Tier::kHostPinned : Tier::kHost;
}

Value copy_to_host(Value x, Category category, Tier tier) {
  Recorder& r = x.recorder();
  const With<Category> c(r.category, category);
  const With<Tier> t(r.tier, tier);
  const With<Stream> stream(r.stream, Stream::kCopyOut);
  const With<std::optional<OpKind>> none(r.backward_of, std::nullopt);
  const Recorder::Result result{x.layout(), x.dtype()};
  return r.emit(OpKind::kCopyToHost, {&x}, result);
}

void copy_to_device(const Value& to, Value from) {
  Recorder& r = to.recorder();
  const With<Stream> stream(r.stream, Stream::kCopyIn);
  const With<std::optional<OpKind>> none(r.backward_of, std::nullopt);
  ops::copy_(to, std::move(from));
}

std::vector<UnitState> OptimizerStates::states(size_t unit) const {
  const Held& held = units_[unit];
  std::vector<StateTensor> layouts = state_tensors(job_.optimizer.kind, held.unit, a_);
  std::vector<UnitState> all;
  for (size_t i = 0; i < layouts.size(); ++i)
    all.push_back({.tensor = held.states[i].id(), .layout = std::move(layouts[i])});
  return all;
}

// Parameters in fp32 that live where they are updated are their own masters.
bool OptimizerStates::has_own_master() const {
  const bool is_apart = is_on_host() && job_.offload.parameters == OffloadTarget::kNone;
  return has_master_weights(job_.precision) || is_apart;
}

Value OptimizerStates::make(int64_t elements, DType dtype, Category category, Tier tier, bool is_zero) {
  const With<Category> c(r_.category, category);
  const With<Tier> t(r_.tier, tier);
  return is_zero ? ops::zeros(r_, {elements}, dtype) : ops::empty(r_, {elements}, dtype);
}

// ---- disk ----

void OptimizerStates::pad(const Value& x) {
  Bytes& bytes = r_.program().storages[x.info().storage.value].bytes;
  bytes = Bytes{round_up(bytes.value, kDiskAlignment)};
}

Value OptimizerStates::on_disk(int64_t elements, Category category) {
  Value place = make(elements, DType::kFloat32, category, Tier::kDisk, false);
  pad(place);
  return place;
}

void OptimizerStates::write(const Value& place, const Value& buffer) {
  const With<Stream> stream(r_.stream, Stream::kDiskWrite);
  r_.emit_effect(OpKind::kWriteToDisk, std::vector<TensorId>{place.id(), buffer.id()});
}

Value OptimizerStates::read(const Value& place) {
  const With<Stream> stream(r_.stream, Stream::kDiskRead);
  const With<Category> category(r_.category, r_.program().storage_of(place.id()).category);
  const With<Tier> tier(r_.tier, moved_tier(job_.offload));
  Value from = place;
  Value buffer = r_.emit(OpKind::kReadFromDisk, {&from}, {place.layout(), place.dtype()});
  pad(buffer);
  return buffer;
}

void OptimizerStates::read(Held& unit) {
  const With<ModuleId> m(r_.module, unit.module);
  if (has_own_master()) unit.master_buffer = read(unit.master);
  if (is_factored()) return;
  for (const Value& state : unit.states) unit.state_buffers.push_back(read(state));
}

// ---- load ----

void OptimizerStates::add(const Unit& of, int64_t first, const Value& shard, Value part) {
  Held unit{.unit = of, .module = r_.program().module(of.name), .first = first, .shard = shard};
  const With<ModuleId> m(r_.module, unit.module);
  const int64_t elements = shard.size(0);
  unit.master = shard;
  if (is_on_disk()) {
    add_to_disk(unit, part);
  } else {
    const bool is_moved = is_on_host() && !has_master_weights(job_.precision);
    const Tier tier = !is_on_host() ? Tier::kGpu : is_moved ? moved_tier(job_.offload) : Tier::kHost;
    if (has_own_master() && is_on_host()) {
      unit.master = copy_to_host(std::move(part), Category::kMasterParameter, tier);
    } else if (has_own_master()) {
      Value own = make(elements, DType::kFloat32, Category::kMasterParameter, tier, false);
      unit.master = ops::copy_(std::move(own), std::move(part));
    }
    add_states(unit);
  }
  units_.push_back(std::move(unit));
}

void OptimizerStates::add_states(Held& unit) {
  const Tier tier = is_on_host() ? Tier::kHost : Tier::kGpu;
  for (const StateTensor& state : state_tensors(job_.optimizer.kind, unit.unit, a_)) {
    const int64_t elements = state.is_divided ? unit.shard.size(0) : state.elements;
    unit.states.push_back(make(elements, DType::kFloat32, Category::kOptimizerState, tier, true));
  }
}

// The buffers of the unit before are given back when those of this one are on their way.
void OptimizerStates::add_to_disk(Held& unit, const Value& part) {
  const int64_t elements = unit.shard.size(0);
  if (has_own_master()) {
    unit.master = on_disk(elements, Category::kMasterParameter);
    unit.master_buffer = copy_to_host(part, Category::kMasterParameter, moved_tier(job_.offload));
    pad(unit.master_buffer);
    write(unit.master, unit.master_buffer);
  }
  if (is_factored()) {
    add_states(unit);
  } else {
    for (size_t i = 0; i < optimizer_row(job_.optimizer.kind).states.size(); ++i) {
      unit.states.push_back(on_disk(elements, Category::kOptimizerState));
      if (i == 0) {
        unit.state_buffers.push_back(
            make(elements, DType::kFloat32, Category::kOptimizerState, moved_tier(job_.offload), true));
        pad(unit.state_buffers[0]);
      }
      write(unit.states.back(), unit.state_buffers[0]);
    }
  }
  if (!units_.empty()) let_go(units_.back());
}

void OptimizerStates::end_load() {
  let_go(units_.back());
  const With<Category> category(r_.category, Category::kBuffer);
  const With<ModuleId> m(r_.module, r_.program().module("gradient_norm"));
  const With<Tier> tier(r_.tier, is_on_host() ? moved_tier(job_.offload) : Tier::kGpu);
  squared_norm_ = ops::zeros(r_, ops::SizeList{}, DType::kFloat64);
}

// ---- step ----

void OptimizerStates::step(std::vector<Value> gradients, const StepHooks& hooks) {
  const With<Category> category(r_.category, Category::kTemporary);
  const With<Holder> holder(r_.holder, Holder::kOptimizer);
  if (is_on_disk()) read(units_.front());
  write_norm(gradients, hooks);
  if (job_.loop.clip_max_norm)
    for (size_t u = 0; u < units_.size(); ++u) {
      const With<ModuleId> m(r_.module, units_[u].module);
      r_.emit_effect(OpKind::kClipByNorm, std::vector<TensorId>{gradients[u].id(), squared_norm_.id()},
                     ScalarAttr{*job_.loop.clip_max_norm});
    }
  std::optional<AdafactorStep> factored;
  if (is_factored()) factored.emplace(begin_factored(gradients, hooks));
  for (size_t u = 0; u < units_.size(); ++u) {
    if (is_on_disk() && u + 1 < units_.size()) read(units_[u + 1]);
    if (factored)
      update_factored(*factored, u);
    else
      update(units_[u], gradients[u]);
    gradients[u].reset();
    if (!is_on_host()) {
      hooks.updated(u);
      continue;
    }
    send_back(units_[u]);
    if (u == 0) continue;
    hooks.updated(u - 1);
    let_go(units_[u - 1]);
  }
  if (!is_on_host()) return;
  hooks.updated(units_.size() - 1);
  let_go(units_.back());
}

void OptimizerStates::write_norm(const std::vector<Value>& gradients, const StepHooks& hooks) {
  std::vector<TensorId> tensors{squared_norm_.id()};
  for (const Value& gradient : gradients) tensors.push_back(gradient.id());
  r_.emit_effect(OpKind::kSquaredNorm, tensors);
  if (hooks.sum_over_ranks) sum(squared_norm_, hooks);
  r_.emit_effect(OpKind::kCheckNorm, std::vector<TensorId>{squared_norm_.id()});
}

// Collectives are the device's.
void OptimizerStates::sum(const Value& tensor, const StepHooks& hooks) {
  if (!is_on_host()) return hooks.sum_over_ranks(tensor);
  const Value on_device = ops::empty(r_, tensor.layout(), tensor.dtype());
  copy_to_device(on_device, tensor);
  hooks.sum_over_ranks(on_device);
  const With<Stream> stream(r_.stream, Stream::kCopyOut);
  ops::copy_(tensor, on_device);
}

AdafactorStep OptimizerStates::begin_factored(const std::vector<Value>& gradients, const StepHooks& hooks) {
  std::vector<AdafactorUnit> units;
  for (size_t u = 0; u < units_.size(); ++u)
    units.push_back({.module = units_[u].module,
                     .tensors = factored_tensors(units_[u].unit, a_),
                     .first = units_[u].first,
                     .gradient = gradients[u],
                     .moments = units_[u].states[0]});
  AdafactorStep::Sum sum_over_ranks;
  if (hooks.sum_over_ranks) sum_over_ranks = [this, &hooks](const Value& tensor) { sum(tensor, hooks); };
  const bool is_moved = is_on_host() && hooks.sum_over_ranks;
  const Tier tier = !is_on_host() ? Tier::kGpu : is_moved ? moved_tier(job_.offload) : Tier::kHost;
  AdafactorStep step(r_, a_, tier, std::move(units), std::move(sum_over_ranks));
  step.begin();
  return step;
}

// What the update writes in the dtype of the computation; none where that is the master's. Padding isn't
// written by all updates, and stays zero.
Value OptimizerStates::copy_of_master(Held& unit) {
  if (!has_master_weights(job_.precision)) return {};
  if (!is_on_host() || job_.offload.parameters != OffloadTarget::kNone) return unit.shard;
  unit.narrow = make(unit.shard.size(0), unit.shard.dtype(), Category::kTemporary, moved_tier(job_.offload),
                     is_factored());
  return unit.narrow;
}

void OptimizerStates::update(Held& unit, const Value& gradient) {
  const With<ModuleId> m(r_.module, unit.module);
  std::vector<TensorId> inputs{unit.updated_master().id(), gradient.id()};
  for (const Value& state : unit.state_buffers.empty() ? unit.states : unit.state_buffers)
    inputs.push_back(state.id());
  if (const Value copy = copy_of_master(unit)) inputs.push_back(copy.id());
  r_.emit_effect(optimizer_row(job_.optimizer.kind).update, inputs);
}

void OptimizerStates::update_factored(AdafactorStep& step, size_t u) {
  Held& unit = units_[u];
  const With<ModuleId> m(r_.module, unit.module);
  step.update(u, unit.updated_master(), copy_of_master(unit));
}

// Of offloaded states: parameters to the device, what was read to the disk.
void OptimizerStates::send_back(Held& unit) {
  const With<ModuleId> m(r_.module, unit.module);
  if (job_.offload.parameters == OffloadTarget::kNone) {
    copy_to_device(unit.shard, unit.narrow ? unit.narrow : unit.updated_master());
  }
  if (unit.master_buffer) write(unit.master, unit.master_buffer);
  for (size_t i = 0; i < unit.state_buffers.size(); ++i) write(unit.states[i], unit.state_buffers[i]);
}

void OptimizerStates::let_go(Held& unit) {
  unit.narrow.reset();
  unit.master_buffer.reset();
  unit.state_buffers.clear();
}

}  // namespace plimsoll::native
