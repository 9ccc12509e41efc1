#include "frameworks/megatron/chunk_state.h"

#include "program/ops.h"

namespace plimsoll::megatron {

DType dtype_of(MegatronPrecision precision) {
  if (precision == MegatronPrecision::kBFloat16) return DType::kBFloat16;
  return precision == MegatronPrecision::kFloat16 ? DType::kFloat16 : DType::kFloat32;
}

int64_t optimizer_ranks(const ResolvedJob& job) {
  return job.mesh.data * job.mesh.context / job.megatron->optimizer_instances;
}

ChunkState::ChunkState(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job,
                       const Stage& stage, size_t chunk)
    : r_(recorder),
      job_(job),
      parameters_(parameters_of(architecture, job, stage.chunks[chunk])),
      // Only the first stage's first chunk divides its buffer: what the others send is no bottleneck.
      layout_(buffer_layout(parameters_, job,
                            job.megatron->overlaps_grad_reduce && stage.is_first() && chunk == 0)) {}

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
    if (parameters_[i].is_made_on_host) make(i, DType::kFloat32);
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].is_made_on_host) make(i, dtype_of(job_.megatron->precision));
}

void ChunkState::wrap() {
  const Layout flat = Layout::contiguous({layout_.elements()});
  if (job_.megatron->has_distributed_optimizer) {
    const With<Category> category(r_.category, Category::kParameter);
    const With<ModuleId> module(r_.module, r_.program().module("parameter_buffer"));
    parameter_buffer_ = ops::zeros(r_, flat, dtype_of(job_.megatron->precision));
  }
  {
    const With<Category> category(r_.category, Category::kGradient);
    const With<ModuleId> module(r_.module, r_.program().module("gradient_buffer"));
    gradient_buffer_ = ops::zeros(r_, flat, gradient_dtype());
  }
  for (size_t i = parameters_.size(); parameter_buffer_ && i-- > 0;) {
    const BufferRange& range = layout_.parameters[i];
    Value part = ops::slice(parameter_buffer_, 0, range.first, range.size());
    values_[i] = ops::view(std::move(part), parameters_[i].shape);
  }
  for (const Value& value : values_) {
    r_.program().tensors[value.id().value].requires_grad = true;
    r_.program().parameters.push_back(value.id());
  }
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
  r_.emit_effect(OpKind::kAddInPlace, std::vector<TensorId>{gradient_buffer_.id(), kept.id()});
  const With<Holder> holder(r_.holder, Holder::kGradient);
  kept.reset();
}

}  // namespace plimsoll::megatron
