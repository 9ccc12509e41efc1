#include "frameworks/native/zero.h"

#include <cassert>

#include "program/ops.h"

namespace plimsoll::native {
Zero::Zero(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job, int64_t rank)
    : r_(recorder),
      a_(architecture),
      job_(job),
      ranks_(job.mesh.data),
      rank_(rank),
      stage_(ranks_ > 1 && job.engine == DataParallelEngine::kZero ? job.zero.stage : 0),
      dtype_(parameter_dtype(job.precision)),
      parameters_(architecture.parameters.size()),
      place_of_(architecture.parameters.size()),
      optimizer_(recorder, architecture, job) {
  for (Unit& unit : make_units(architecture, shards())) states_.push_back({.unit = std::move(unit)});
  for (size_t u = 0; u < states_.size(); ++u)
    for (size_t i = 0; i < states_[u].unit.tensors.size(); ++i)
      place_of_[states_[u].unit.tensors[i].parameter] = {u, i};
}

std::vector<UnitTensors> Zero::tensors() const {
  std::vector<UnitTensors> all;
  for (size_t u = 0; u < states_.size(); ++u) {
    const State& s = states_[u];
    all.push_back({.unit = s.unit,
                   .whole = s.whole.id(),
                   .shard = s.shard.id(),
                   .master = optimizer_.master(u),
                   .states = optimizer_.states(u),
                   .gradient = s.last_gradient,
                   .staging = s.staging});
  }
  return all;
}

// ---- load ----

Value Zero::make(const State& s, int64_t elements, DType dtype, Category category, bool is_zero) {
  const With<Category> c(r_.category, category);
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  return is_zero ? ops::zeros(r_, {elements}, dtype) : ops::empty(r_, {elements}, dtype);
}

std::vector<Value> Zero::views_of(const Value& flat, const State& s) {
  std::vector<Value> views;
  for (const UnitTensor& t : s.unit.tensors) {
    const ParameterTensor& p = a_.parameters[t.parameter];
    const With<ModuleId> m(r_.module, r_.program().module(p.name));
    Value part = ops::slice(flat, 0, t.offset, t.elements);
    views.push_back(ops::view(std::move(part), ops::Sizes(p.shape)));
  }
  return views;
}

Value Zero::part_of(const Value& whole, const State& s) {
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  return ops::slice(whole, 0, first_element(s), shard_elements(s));
}

void Zero::load() {
  const With<bool> no_grad(r_.is_grad_enabled, false);
  for (State& s : states_) load_unit(s);
  optimizer_.end_load();
  for (const Value& p : parameters_) r_.program().parameters.push_back(p.id());
}

// Weights are read in fp32 into the whole unit, of which every rank then keeps its part.
void Zero::load_unit(State& s) {
  const ModuleId owner = r_.program().module(s.unit.name);
  const Layout layout = Layout::contiguous({s.unit.elements});
  if (comes_and_goes()) {
    s.whole = r_.persistent(layout, dtype_, Category::kUnshardedParameter, owner);
    const With<ModuleId> m(r_.module, owner);
    r_.emit_allocation(OpKind::kResize, std::vector<TensorId>{s.whole.id()});
  } else {
    s.whole = make(s, s.unit.elements, dtype_, Category::kParameter, false);
  }
  std::vector<Value> parameters = views_of(s.whole, s);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const size_t parameter = s.unit.tensors[i].parameter;
    r_.program().tensors[parameters[i].id().value].requires_grad = true;
    parameter_of_[parameters[i].id().value] = parameter;
    parameters_[parameter] = std::move(parameters[i]);
  }

  Value staging = s.whole;
  if (dtype_ != DType::kFloat32)
    staging = make(s, s.unit.elements, DType::kFloat32, Category::kTemporary, false);
  {
    const std::vector<Value> places = views_of(staging, s);
    for (const Value& place : places) s.staging.push_back(place.id());
    const With<ModuleId> m(r_.module, owner);
    std::vector<TensorId> written{staging.id()};
    written.insert(written.end(), s.staging.begin(), s.staging.end());
    r_.emit_effect(OpKind::kLoadWeights, written);
  }
  const With<ModuleId> m(r_.module, owner);
  if (dtype_ != DType::kFloat32) s.whole = ops::copy_(std::move(s.whole), staging);
  s.shard = part_of(s.whole, s);
  if (is_shard_on_host()) {
    s.shard = copy_to_host(std::exchange(s.shard, {}), Category::kParameter, moved_tier(job_.offload));
  } else if (is_sharded(3)) {
    Value own = make(s, shard_elements(s), dtype_, Category::kParameter, false);
    s.shard = ops::copy_(std::move(own), std::exchange(s.shard, {}));
  }
  Value part;
  if (optimizer_.has_own_master()) part = part_of(staging, s);
  staging.reset();
  optimizer_.add(s.unit, first_element(s), s.shard, std::move(part));
  if (comes_and_goes()) r_.free_storage(s.whole.info().storage, Holder::kPersistent);
}

// ---- units of a forward program ----

void Zero::mark_units(Program& forward) {
  unit_of_region_.assign(forward.regions.size(), 0);
  is_embedding_.assign(forward.regions.size(), false);
  for (State& s : states_) s.regions = 0;
  size_t block = 0;
  for (size_t i = 0; i < forward.regions.size(); ++i) {
    Region& region = forward.regions[i];
    region.is_unit = true;
    is_embedding_[i] = region.kind == RegionKind::kEmbedding;
    if (region.kind == RegionKind::kBlock) unit_of_region_[i] = 1 + block++;
    if (region.kind == RegionKind::kHead) unit_of_region_[i] = a_.is_tied ? 0 : states_.size() - 1;
    ++states_[unit_of_region_[i]].regions;
  }
  for (State& s : states_) s.regions_left = s.regions;
}

// ---- parameters ----

void Zero::collective(OpKind kind, Stream stream, std::initializer_list<const Value*> tensors) {
  const With<Stream> s(r_.stream, stream);
  const With<std::optional<OpKind>> none(r_.backward_of, std::nullopt);
  std::vector<TensorId> ids;
  for (const Value* t : tensors) ids.push_back(t->id());
  if (r_.program().groups.empty()) r_.program().groups.emplace_back("data");
  r_.emit_effect(kind, ids, CollectiveAttr{});
}

// The rank's part goes from the host to the device.
void Zero::fetch(State& s) {
  if (!is_shard_on_host() || ranks_ == 1 || s.is_gathered || s.arrived) return;
  const With<std::optional<OpKind>> none(r_.backward_of, std::nullopt);
  s.arrived = make(s, shard_elements(s), dtype_, Category::kGatherBuffer, false);
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  copy_to_device(s.arrived, s.shard);
}

void Zero::gather(State& s) {
  if (!comes_and_goes() || s.is_gathered) return;
  fetch(s);
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  const With<std::optional<OpKind>> none(r_.backward_of, std::nullopt);
  {
    const With<Stream> stream(r_.stream, Stream::kAllGather);
    r_.emit_allocation(OpKind::kResize, std::vector<TensorId>{s.whole.id()});
  }
  if (ranks_ == 1)
    copy_to_device(s.whole, s.shard);
  else
    collective(OpKind::kAllGather, Stream::kAllGather, {&s.whole, s.arrived ? &s.arrived : &s.shard});
  s.is_gathered = true;
}

void Zero::give_back(State& s) {
  if (!comes_and_goes() || !s.is_gathered) return;
  r_.free_storage(s.whole.info().storage, Holder::kCommunication);
  s.is_gathered = false;
}

// The region's unit and the next one are gathered, that after it is on its way to the device.
void Zero::prefetch(RegionId region, int64_t direction) {
  const auto needs_weights = [&](int64_t r) {  // an embedding's backward reads none
    const bool is_region = r >= 0 && r < static_cast<int64_t>(unit_of_region_.size());
    return is_region && (direction > 0 || !is_embedding_[static_cast<size_t>(r)]);
  };
  const auto at = [&](int64_t r) -> State& { return state_of(RegionId{static_cast<uint32_t>(r)}); };
  const int64_t now = region.value, next = now + direction, after = next + direction;
  if (!needs_weights(now)) return;
  gather(at(now));
  if (needs_weights(after)) fetch(at(after));
  if (needs_weights(next)) gather(at(next));
  const With<Holder> holder(r_.holder, Holder::kCommunication);
  at(now).arrived.reset();
}

void Zero::before_forward(RegionId region) { prefetch(region, 1); }

// The last unit of a forward with gradients is the first of the backward.
void Zero::after_forward(RegionId region) {
  const bool is_last = region.value + 1 == unit_of_region_.size();
  if (!is_last || !r_.is_grad_enabled) give_back(state_of(region));
}

void Zero::before_backward(RegionId region) { prefetch(region, -1); }

void Zero::after_backward(RegionId region) {
  State& s = state_of(region);
  give_back(s);
  if (--s.regions_left == 0) reduce(unit_of_region_[region.value]);
}

void Zero::at_backward_end() {
  for (size_t u = 0; u < states_.size(); ++u) {
    State& s = states_[u];
    give_back(s);
    if (s.regions_left > 0) reduce(u);
    s.regions_left = s.regions;
  }
  finish_reduction();
  arrive();
}

// ---- gradients ----

bool Zero::reduces_each_time() const {
  const bool is_meant = job_.engine == DataParallelEngine::kZero && job_.zero.stage >= 2;
  return is_sharded(2) || (is_meant && optimizer_.is_on_host());
}

void Zero::begin_gradient(State& s) {
  const With<std::optional<OpKind>> none(r_.backward_of, std::nullopt);
  const Category category = reduces_each_time() ? Category::kUnshardedGradient : Category::kGradient;
  s.whole_gradient = make(s, s.unit.elements, DType::kFloat32, category, true);
  s.gradient_views = views_of(s.whole_gradient, s);
}

void Zero::accumulate(TensorId parameter, Value gradient) {
  const auto [unit, index] = place_of_[parameter_of_.at(parameter.value)];
  State& s = states_[unit];
  if (!s.whole_gradient) begin_gradient(s);
  Value& view = s.gradient_views[index];
  view = ops::add_(std::move(view), std::move(gradient));
}

// The gradients of the unit are whole on this rank.
void Zero::reduce(size_t unit) {
  State& s = states_[unit];
  assert(s.whole_gradient && "a unit whose parameters have no gradient");
  if (!reduces_each_time() && !is_last_) return;
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  const With<Holder> holder(r_.holder, Holder::kCommunication);
  finish_reduction();
  s.gradient_views.clear();
  if (!is_sharded(1)) {
    if (ranks_ > 1) collective(OpKind::kAllReduce, Stream::kAllReduce, {&s.whole_gradient});
    if (!optimizer_.is_on_host())
      s.gradient = std::move(s.whole_gradient);
    else if (ranks_ == 1)
      depart(unit, std::move(s.whole_gradient));
    else
      reduction_ = {.unit = unit, .output = std::move(s.whole_gradient)};
    return;
  }
  const bool is_passing = s.gradient || optimizer_.is_on_host();
  const Category category = is_passing ? Category::kReduceBuffer : Category::kGradient;
  Value output = make(s, shard_elements(s), DType::kFloat32, category, false);
  collective(OpKind::kReduceScatter, Stream::kReduceScatter, {&output, &s.whole_gradient});
  reduction_ = {.unit = unit, .input = std::move(s.whole_gradient), .output = std::move(output)};
}

void Zero::finish_reduction() {
  if (!reduction_) return;
  Reduction done = std::move(*reduction_);
  reduction_.reset();
  State& s = states_[done.unit];
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  const With<Holder> holder(r_.holder, Holder::kCommunication);
  done.input.reset();
  if (optimizer_.is_on_host())
    depart(done.unit, std::move(done.output));
  else if (s.gradient)
    s.gradient = ops::add_(std::move(s.gradient), std::move(done.output));
  else
    s.gradient = std::move(done.output);
}

// The one before has arrived by then.
void Zero::depart(size_t unit, Value gradient) {
  arrive();
  const State& s = states_[unit];
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  const Category category = s.gradient ? Category::kReduceBuffer : Category::kGradient;
  Value host = copy_to_host(gradient, category, moved_tier(job_.offload));
  departure_ = {.unit = unit, .device = std::move(gradient), .host = std::move(host)};
}

void Zero::arrive() {
  if (!departure_) return;
  Departure done = std::move(*departure_);
  departure_.reset();
  State& s = states_[done.unit];
  const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
  const With<Holder> holder(r_.holder, Holder::kCommunication);
  done.device.reset();
  if (s.gradient)
    s.gradient = ops::add_(std::move(s.gradient), std::move(done.host));
  else
    s.gradient = std::move(done.host);
}

// ---- optimizer ----

void Zero::step() {
  const With<bool> no_grad(r_.is_grad_enabled, false);
  std::vector<Value> gradients;
  for (State& s : states_) {
    s.last_gradient = s.gradient.id();
    gradients.push_back(std::move(s.gradient));
  }
  StepHooks hooks{.updated = [&](size_t unit) {
    State& s = states_[unit];
    const With<ModuleId> m(r_.module, r_.program().module(s.unit.name));
    if (is_sharded(1) && !comes_and_goes())
      collective(OpKind::kAllGather, Stream::kAllGather, {&s.whole, &s.shard});
  }};
  if (is_sharded(1))
    hooks.sum_over_ranks = [&](const Value& tensor) {
      collective(OpKind::kAllReduce, Stream::kCompute, {&tensor});
    };
  optimizer_.step(std::move(gradients), hooks);
}

}  // namespace plimsoll::native
