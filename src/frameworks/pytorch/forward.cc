#include "frameworks/pytorch/forward.h"

#include <fmt/format.h>

#include "frameworks/pytorch/bodies.h"
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// The loss as the loop sees it: divided by the number of micro-batches, multiplied by the loss scale.
Value scaled_loss(const ResolvedJob& job, Value loss, const Value& scale, ForwardProgram& forward) {
  if (job.batch.accumulation > 1) loss = ops::div(loss, static_cast<double>(job.batch.accumulation));
  forward.scaling_begins = static_cast<uint32_t>(forward.program.statements.size());
  if (scale) loss = ops::mul(loss, scale);
  return loss;
}

// What a wrapper of data parallelism finds in the model's output; a cache is an object that it can't look
// into.
std::vector<Value*> visible_tensors(ModelOutput& output) {
  std::vector<Value*> tensors{&output.loss};
  if (output.logits) tensors.push_back(&output.logits);
  for (Value& v : output.counts) tensors.push_back(&v);
  return tensors;
}

std::vector<TensorId> held_tensors(ModelOutput& output) {
  std::vector<TensorId> ids;
  for (const Value* v : visible_tensors(output)) ids.push_back(v->id());
  for (const Value& v : output.cache) ids.push_back(v.id());
  return ids;
}

// _DDPSink: with find_unused_parameters each of the model's outputs that has a graph is cloned. Without a
// graph the clones are made too, and thrown away.
void pass_through_sink(ModelOutput& output) {
  const std::vector<Value*> tensors = visible_tensors(output);
  std::vector<Value> clones;
  for (const Value* v : tensors) clones.push_back(ops::clone(*v));
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i]->requires_grad()) *tensors[i] = std::move(clones[i]);
}

// FSDPState._cast_output_dtype of the root; its units' outputs have that dtype already (supported.cc).
void cast_outputs(ModelOutput& output, DType dtype) {
  for (Value* v : visible_tensors(output))
    if (is_floating(v->dtype())) *v = ops::cast(std::move(*v), dtype);
}

// What the wrapper of data parallelism does to the model's output.
void leave_wrapper(const ResolvedJob& job, ModelOutput& output) {
  if (job.engine == DataParallelEngine::kDdp && job.ddp.find_unused_parameters) pass_through_sink(output);
  if (job.engine == DataParallelEngine::kFsdp2 && job.fsdp2.output_dtype)
    cast_outputs(output, *job.fsdp2.output_dtype);
}

// gradient_checkpointing_enable() enables them too, for models whose main input is token ids; selective
// policies are set without it.
bool inputs_require_grads(const ResolvedJob& job) {
  return job.loop.input_require_grads || job.recompute.kind == RecomputeKind::kFull ||
         job.recompute.kind == RecomputeKind::kEveryNth;
}

}  // namespace

Result<ForwardProgram> record_forward(const Architecture& architecture, const ResolvedJob& job,
                                      const std::vector<bool>& trainable, ForwardOptions options) {
  PLIMSOLL_TRY(family, find_family(architecture.family));
  ForwardProgram forward;
  {
    Recorder recorder(forward.program, Recorder::Mode::kForward);
    recorder.is_grad_enabled = options.is_training;
    Eager eager(recorder, architecture, trainable,
                {.parameter_dtype = options.parameter_dtype,
                 .loaded_dtype = parameter_dtype(job.precision),
                 .has_one_dtype = job.engine == DataParallelEngine::kFsdp2,
                 .autocast = autocast_dtype(job.precision),
                 .tensor_parallel = job.mesh.tensor,
                 .is_training = options.is_training,
                 .input_require_grads = inputs_require_grads(job)});
    forward.buffers = eager.buffer_ids();
    const Layout tokens = Layout::contiguous({job.batch.micro_batch, job.batch.sequence});
    const auto input = [&](std::string_view name, const Layout& layout, DType dtype) {
      return recorder.persistent(layout, dtype, Category::kInput, forward.program.module(name));
    };
    const Value ids = input("input_ids", tokens, DType::kInt64);
    const Value labels = input("labels", tokens, DType::kInt64);
    Value mask, scale;
    if (job.loop.has_attention_mask) mask = input("attention_mask", tokens, DType::kInt64);
    if (has_grad_scaler(job.precision) && options.is_training) {
      scale = recorder.persistent(Layout::contiguous(std::initializer_list<int64_t>{}), DType::kFloat32,
                                  Category::kActivation, forward.program.module("grad_scaler.scale"));
      forward.scale = scale.id();
    }
    forward.ids = ids.id();
    forward.labels = labels.id();
    if (mask) forward.mask = mask.id();

    ModelOutput output =
        write_model(eager, family, job, {.ids = ids, .labels = labels, .mask = mask, .loss = job.loss});
    leave_wrapper(job, output);
    eager.clear_autocast_cache();
    forward.made_once = eager.made_once_ids();
    Value loss = output.loss;
    if (options.is_training) loss = scaled_loss(job, std::move(loss), scale, forward);
    forward.loss = loss.id();
    if (job.loop.hold_outputs && options.is_training) {
      forward.held_outputs = held_tensors(output);
    } else {
      output = {};
    }
    recorder.finish();  // the loss stays in scope: its last reference is the backward's
  }
  return forward;
}

}  // namespace plimsoll::pytorch
