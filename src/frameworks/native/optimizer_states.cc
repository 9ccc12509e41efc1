#include "frameworks/native/optimizer_states.h"

#include "base/units.h"
#include "frameworks/native/optimizers.h"
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

std::vector<TensorId> OptimizerStates::states(size_t unit) const {
  std::vector<TensorId> ids;
  for (const Value& state : units_[unit].states) ids.push_back(state.id());
  return ids;
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

void OptimizerStates::read(Unit& unit) {
  const With<ModuleId> m(r_.module, unit.module);
  if (has_own_master()) unit.master_buffer = read(unit.master);
  for (const Value& state : unit.states) unit.state_buffers.push_back(read(state));
}

// ---- load ----

void OptimizerStates::add(const std::string& name, const Value& shard, Value part) {
  Unit unit{.module = r_.program().module(name), .shard = shard};
  const With<ModuleId> m(r_.module, unit.module);
  const int64_t elements = shard.size(0);
  if (is_on_disk()) {
    add_to_disk(unit, part);
  } else {
    const bool is_moved = is_on_host() && !has_master_weights(job_.precision);
    const Tier tier = !is_on_host() ? Tier::kGpu : is_moved ? moved_tier(job_.offload) : Tier::kHost;
    unit.master = shard;
    if (has_own_master() && is_on_host()) {
      unit.master = copy_to_host(std::move(part), Category::kMasterParameter, tier);
    } else if (has_own_master()) {
      Value own = make(elements, DType::kFloat32, Category::kMasterParameter, tier, false);
      unit.master = ops::copy_(std::move(own), std::move(part));
    }
    const Tier of_states = is_on_host() ? Tier::kHost : Tier::kGpu;
    for (int i = 0; i < optimizer_row(job_.optimizer.kind).states; ++i)
      unit.states.push_back(make(elements, DType::kFloat32, Category::kOptimizerState, of_states, true));
  }
  units_.push_back(std::move(unit));
}

// The buffers of the unit before are given back when those of this one are on their way.
void OptimizerStates::add_to_disk(Unit& unit, const Value& part) {
  const int64_t elements = unit.shard.size(0);
  unit.master = unit.shard;
  if (has_own_master()) {
    unit.master = on_disk(elements, Category::kMasterParameter);
    unit.master_buffer = copy_to_host(part, Category::kMasterParameter, moved_tier(job_.offload));
    pad(unit.master_buffer);
    write(unit.master, unit.master_buffer);
  }
  const int states = optimizer_row(job_.optimizer.kind).states;
  for (int i = 0; i < states; ++i) {
    unit.states.push_back(on_disk(elements, Category::kOptimizerState));
    if (i == 0) {
      unit.state_buffers.push_back(
          make(elements, DType::kFloat32, Category::kOptimizerState, moved_tier(job_.offload), true));
      pad(unit.state_buffers[0]);
    }
    write(unit.states.back(), unit.state_buffers[0]);
  }
  if (!units_.empty()) let_go(units_.back());
}

void OptimizerStates::end_load() {
  let_go(units_.back());
  const With<Category> category(r_.category, Category::kBuffer);
  const With<ModuleId> m(r_.module, r_.program().module("gradient_norm"));
  const With<Tier> tier(r_.tier, is_on_host() ? moved_tier(job_.offload) : Tier::kGpu);
  squared_norm_ = ops::zeros(r_, ops::SizeList{}, DType::kFloat32);
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
  for (size_t u = 0; u < units_.size(); ++u) {
    if (is_on_disk() && u + 1 < units_.size()) read(units_[u + 1]);
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

// Collectives are the device's.
void OptimizerStates::write_norm(const std::vector<Value>& gradients, const StepHooks& hooks) {
  std::vector<TensorId> tensors{squared_norm_.id()};
  for (const Value& gradient : gradients) tensors.push_back(gradient.id());
  r_.emit_effect(OpKind::kSquaredNorm, tensors);
  if (!hooks.sum_over_ranks) return;
  if (!is_on_host()) return hooks.sum_over_ranks(squared_norm_);
  const Value on_device = ops::empty(r_, ops::SizeList{}, DType::kFloat32);
  copy_to_device(on_device, squared_norm_);
  hooks.sum_over_ranks(on_device);
  const With<Stream> stream(r_.stream, Stream::kCopyOut);
  ops::copy_(squared_norm_, on_device);
}

void OptimizerStates::update(Unit& unit, const Value& gradient) {
  const With<ModuleId> m(r_.module, unit.module);
  const bool is_shard_on_host = job_.offload.parameters != OffloadTarget::kNone;
  std::vector<TensorId> inputs{(unit.master_buffer ? unit.master_buffer : unit.master).id(), gradient.id()};
  for (const Value& state : unit.state_buffers.empty() ? unit.states : unit.state_buffers)
    inputs.push_back(state.id());
  if (has_master_weights(job_.precision)) {
    const bool is_copied = is_on_host() && !is_shard_on_host;
    if (is_copied)
      unit.narrow =
          make(unit.shard.size(0), unit.shard.dtype(), Category::kTemporary, moved_tier(job_.offload), false);
    inputs.push_back(is_copied ? unit.narrow.id() : unit.shard.id());
  }
  r_.emit_effect(optimizer_row(job_.optimizer.kind).update, inputs);
}

// Of offloaded states: parameters to the device, what was read to the disk.
void OptimizerStates::send_back(Unit& unit) {
  const With<ModuleId> m(r_.module, unit.module);
  if (job_.offload.parameters == OffloadTarget::kNone) {
    const Value& master = unit.master_buffer ? unit.master_buffer : unit.master;
    copy_to_device(unit.shard, unit.narrow ? unit.narrow : master);
  }
  if (unit.master_buffer) write(unit.master, unit.master_buffer);
  for (size_t i = 0; i < unit.state_buffers.size(); ++i) write(unit.states[i], unit.state_buffers[i]);
}

void OptimizerStates::let_go(Unit& unit) {
  unit.narrow.reset();
  unit.master_buffer.reset();
  unit.state_buffers.clear();
}

}  // namespace plimsoll::native
