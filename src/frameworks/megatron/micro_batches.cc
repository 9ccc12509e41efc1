#include "frameworks/megatron/micro_batches.h"

#include "program/ops.h"

namespace plimsoll::megatron {
namespace {

// :4096:8 is eight buffers of 4096 KiB. Without it: PyTorch's default. Source: CublasHandlePool.cpp.
constexpr Bytes kFixedCublasWorkspace{8 * 4096 * 1024};
constexpr Bytes kHopperCublasWorkspace{32 << 20};
constexpr Bytes kCublasWorkspace{8'519'680};
constexpr int kHopper = 90;

Bytes cublas_workspace(const ResolvedJob& job) {
  if (job.megatron->has_fixed_cublas_workspace) return kFixedCublasWorkspace;
  return job.gpu_compute_capability.value_or(0) >= kHopper ? kHopperCublasWorkspace : kCublasWorkspace;
}

// Source: get_cublas_workspace_size_bytes in transformer_engine/pytorch/module/base.py.
constexpr Bytes kTeWorkspace{4 << 20};
constexpr Bytes kHopperTeWorkspace{(32 << 20) + 1024};

// Streams of grouped products, with a workspace each. Source: nvte_get_num_compute_streams.
constexpr int64_t kTeComputeStreams = 4;

Bytes te_workspace(const ResolvedJob& job) {
  return job.gpu_compute_capability.value_or(0) >= kHopper ? kHopperTeWorkspace : kTeWorkspace;
}

}  // namespace

MicroBatches::MicroBatches(Recorder& recorder, const ResolvedJob& job, std::vector<ChunkState>& chunks,
                           const std::vector<Forward>& forwards)
    : r_(recorder), job_(job), chunks_(chunks), forwards_(forwards) {
  for (const Forward& forward : forwards) kept_.emplace_back(forward.kept.size());
}

Value MicroBatches::make(std::string_view name, Bytes bytes) {
  const With<Category> category(r_.category, Category::kWorkspace);
  const With<ModuleId> module(r_.module, r_.program().module(name));
  return ops::empty(r_, {bytes.value}, DType::kUInt8);
}

Value MicroBatches::make_once(const Program& forward, const MadeOnce& m, const std::string& name) {
  switch (m.kind) {
    case MadeOnce::Kind::kTensor: {
      const TensorInfo& info = forward.tensor(m.tensor);
      const With<Category> category(r_.category, Category::kBuffer);
      const With<ModuleId> module(r_.module, r_.program().module(name));
      return ops::empty(r_, info.layout, info.dtype);
    }
    case MadeOnce::Kind::kCublasWorkspace:
      return make(name, cublas_workspace(job_));
    case MadeOnce::Kind::kTeWorkspace:
      return make(name, te_workspace(job_));
    case MadeOnce::Kind::kTeGroupedWorkspace:
      return make(name, te_workspace(job_) * kTeComputeStreams);
    case MadeOnce::Kind::kSequenceEnds:
      return make(name, Bytes{bytes_of(DType::kInt32)} * (job_.batch.micro_batch + 1));
  }
  return {};
}

std::string_view name_of(MadeOnce::Kind kind) {
  static constexpr std::string_view kNames[] = {"", "cublas_workspace.forward", "te_workspace", "cu_seqlens",
                                                "te_grouped_workspace"};
  return kNames[static_cast<size_t>(kind)];
}

// The first forward makes them on its way.
void MicroBatches::bind_made_once(Autograd& autograd, const Program& forward, const MadeOnce& m) {
  const bool is_tensor = m.kind == MadeOnce::Kind::kTensor;
  const std::string name(is_tensor ? std::string_view(forward.module_name(forward.storage_of(m.tensor).owner))
                                   : name_of(m.kind));
  Value& value = shared_[name];
  const bool is_too_small =
      value && is_tensor && value.layout().elements() < forward.tensor(m.tensor).layout.elements();
  if (!value || is_too_small) {
    autograd.forward_until(m.statement);
    value = make_once(forward, m, name);
  }
  if (is_tensor) autograd.bind(m.tensor, value);
}

// What is made once and what modules keep, in the order of the statements.
void MicroBatches::play_to_end(Autograd& autograd, size_t chunk) {
  const Forward& forward = forwards_[chunk];
  size_t k = 0;
  const auto keep_until = [&](uint32_t statement) {
    for (; k < forward.kept.size() && forward.kept[k].statement < statement; ++k) {
      autograd.forward_until(forward.kept[k].statement);
      kept_[chunk][k] = autograd.local(forward.kept[k].tensor);
    }
  };
  for (const MadeOnce& m : forward.made_once) {
    keep_until(m.statement);
    bind_made_once(autograd, forward.program, m);
  }
  keep_until(static_cast<uint32_t>(forward.program.statements.size() + 1));
}

InFlight MicroBatches::forward(size_t chunk, Value input) {
  const Forward& forward = forwards_[chunk];
  ChunkState& state = chunks_[chunk];
  InFlight batch{.chunk = chunk, .input = std::move(input)};
  batch.graph = std::make_unique<Autograd>(r_, forward.program, state, nullptr, AutogradOptions{});
  Autograd& autograd = *batch.graph;
  for (size_t i = 0; i < state.parameters().size(); ++i)
    autograd.bind(forward.program.parameters[i], state.parameter(i));
  if (forward.input) autograd.bind(*forward.input, batch.input);
  play_to_end(autograd, chunk);
  batch.output = autograd.forward(forward.output);
  if (forward.token_count) batch.token_count = autograd.local(*forward.token_count);
  if (forward.report) batch.report = autograd.local(*forward.report);
  autograd.release_locals();
  batch.root = autograd.root_of(batch.output);
  return batch;
}

void MicroBatches::deallocate_output(InFlight& batch) {
  const DType dtype = batch.output.dtype();
  Value one = ops::empty(r_, {1}, dtype);
  batch.output = std::move(one);
  batch.is_deallocated = true;
}

// The loss times the gradient scale; its gradient is one.
Result<void> MicroBatches::backward_of_loss(InFlight& batch) {
  Value scaled = ops::mul(ops::view(batch.output, {1}), 1.0);
  batch.scaled = std::move(scaled);
  if (batch.is_deallocated) batch.output.reset();  // what stood for it in the list
  const Value ones = ops::ones_like(batch.scaled);
  Value gradient = ops::sum(ops::mul(ones, 1.0), {0}, false);
  return batch.graph->backward(batch.root, std::move(gradient));
}

// The engine's thread has a handle of its own: at its first product that is ATen's.
void MicroBatches::make_backward_workspace() {
  if (std::exchange(has_backward_workspace_, true)) return;
  const bool ends_in_head = forwards_.back().token_count.has_value();
  const bool is_te = job_.megatron->layers == MegatronLayers::kTransformerEngine;
  r_.after_next(ends_in_head || !is_te ? OpKind::kMm : OpKind::kBmm, [this] {
    Value& workspace = shared_["cublas_workspace.backward"];
    workspace = make("cublas_workspace.backward", cublas_workspace(job_));
  });
}

Result<Value> MicroBatches::backward(InFlight& batch, Value gradient) {
  const With<bool> no_grad(r_.is_grad_enabled, false);
  const With<Category> category(r_.category, Category::kTemporary);
  ChunkState& state = chunks_[batch.chunk];
  if (batch.input) state.expect_input(batch.input);
  make_backward_workspace();
  if (forwards_[batch.chunk].token_count)
    PLIMSOLL_CHECK(backward_of_loss(batch));
  else
    PLIMSOLL_CHECK(batch.graph->backward(batch.root, std::move(gradient)));
  return state.take_input_gradient();
}

}  // namespace plimsoll::megatron
