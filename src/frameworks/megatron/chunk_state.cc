#include "frameworks/megatron/chunk_state.h"

#include "frameworks/megatron/expert_ranks.h"
#include "program/ops.h"

namespace plimsoll::megatron {

DType dtype_of(MegatronPrecision precision) {
  if (precision == MegatronPrecision::kBFloat16) return DType::kBFloat16;
  return precision == MegatronPrecision::kFloat16 ? DType::kFloat16 : DType::kFloat32;
}

int64_t optimizer_ranks(const ResolvedJob& job, bool is_expert) {
  return data_ranks(job, is_expert) / job.megatron->optimizer_instances;
}

ChunkState::ChunkState(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job,
                       const Stage& stage, size_t chunk)
    : r_(recorder), job_(job), parameters_(parameters_of(architecture, job, stage.chunks[chunk])) {
  // Only the first stage's first chunk divides its buffer: what the others send is no bottleneck.
  const bool has_buckets = job.megatron->overlaps_grad_reduce && stage.is_first() && chunk == 0;
  for (const bool is_expert : {false, true}) group(is_expert, has_buckets);
}

void ChunkState::group(bool is_expert, bool has_buckets) {
  ParameterGroup group{.is_expert = is_expert};
  std::vector<StageParameter> members;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].is_expert != is_expert) continue;
    group.members.push_back(i);
    members.push_back(parameters_[i]);
  }
  if (members.empty()) return;
  group.layout = buffer_layout(members, job_, has_buckets, data_ranks(job_, is_expert));
  groups_.push_back(std::move(group));
}

// bf16 gradients are summed in fp32. Source: megatron/training/arguments.py
// (accumulate_allreduce_grads_in_fp32).
DType ChunkState::gradient_dtype() const {
  return job_.megatron->precision == MegatronPrecision::kFloat16 ? DType::kFloat16 : DType::kFloat32;
}

// Linears and Transformer Engine's norms are made on the GPU; what torch.nn and apex make on the host is
// copied in fp32 (model.cuda()) and then cast (Float16Module).
void ChunkState::build() {
  const With<Category> category(r_.category, Category::kParameter);
  const auto make = [&](size_t i, DType dtype) {
    const With<ModuleId> module(r_.module, r_.program().module(parameters_[i].name));
    values_[i] = ops::empty(r_, Layout::contiguous(parameters_[i].shape), dtype);
  };
  values_.resize(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (!parameters_[i].is_made_on_host) make(i, dtype_of(job_.megatron->precision));
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].is_made_on_host)
      make(i, parameters_[i].is_cast_on_host ? dtype_of(job_.megatron->precision) : DType::kFloat32);
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].is_made_on_host && !parameters_[i].is_cast_on_host)
      make(i, dtype_of(job_.megatron->precision));
}

void ChunkState::wrap() {
  for (ParameterGroup& group : groups_) wrap(group);
  for (const Value& value : values_) {
    r_.program().tensors[value.id().value].requires_grad = true;
    r_.program().parameters.push_back(value.id());
  }
}

void ChunkState::wrap(ParameterGroup& group) {
  const Layout flat = Layout::contiguous({group.layout.elements()});
  const std::string owner = group.is_expert ? "expert_" : "";
  if (job_.megatron->has_distributed_optimizer) {
    const With<Category> category(r_.category, Category::kParameter);
    const With<ModuleId> module(r_.module, r_.program().module(owner + "parameter_buffer"));
    group.parameter_buffer = ops::zeros(r_, flat, dtype_of(job_.megatron->precision));
  }
  {
    const With<Category> category(r_.category, Category::kGradient);
    const With<ModuleId> module(r_.module, r_.program().module(owner + "gradient_buffer"));
    group.gradient_buffer = ops::zeros(r_, flat, gradient_dtype());
  }
  for (size_t m = group.members.size(); group.parameter_buffer && m-- > 0;) {
    const BufferRange& range = group.layout.parameters[m];
    Value part = ops::slice(group.parameter_buffer, 0, range.first, range.size());
    values_[group.members[m]] = ops::view(std::move(part), parameters_[group.members[m]].shape);
  }
}

const ParameterGroup& ChunkState::group_of(TensorId parameter) const {
  size_t i = 0;
  while (i + 1 < values_.size() && values_[i].id() != parameter) ++i;
  return parameters_[i].is_expert ? groups_.back() : groups_.front();
}

void ChunkState::expect_input(const Value& input) {
  input_ = input.id();
  input_gradient_.reset();
}

void ChunkState::accumulate(TensorId parameter, Value gradient) {
  Value kept;
  if (parameter == input_) {
    accumulate_gradient(r_, parameter, std::move(gradient), input_gradient_, Category::kActivation);
    return;
  }
  accumulate_gradient(r_, parameter, std::move(gradient), kept, Category::kGradient);
  r_.emit_effect(OpKind::kAddInPlace,
                 std::vector<TensorId>{group_of(parameter).gradient_buffer.id(), kept.id()});
  const With<Holder> holder(r_.holder, Holder::kGradient);
  kept.reset();
}

}  // namespace plimsoll::megatron
