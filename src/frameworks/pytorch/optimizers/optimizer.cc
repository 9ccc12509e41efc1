#include "frameworks/pytorch/optimizers/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "program/ops.h"
#include "strategy/names.h"
#include "strategy/resolve.h"

namespace plimsoll::pytorch {
namespace {

struct OptimizerRow {
  OptimizerKind kind;
  OptimizerFactory make;
  std::string_view why_no_shards;  // of fsdp2; empty: its step on them is known
};

constexpr std::array kOptimizers = {
    OptimizerRow{OptimizerKind::kAdamW, make_adamw, {}},
    OptimizerRow{OptimizerKind::kSgd, make_sgd, {}},
    OptimizerRow{OptimizerKind::kSgdMomentum, make_sgd_momentum, {}},
    OptimizerRow{OptimizerKind::kAdafactor, make_adafactor,
                 "how it takes means over rows and columns of shards isn't modelled yet"},
    // optimizer_update_8bit_blockwise: "got mixed torch.Tensor and DTensor" (bitsandbytes 0.50, torch 2.13).
    OptimizerRow{OptimizerKind::kAdam8bit, make_adam8bit,
                 "bitsandbytes' 8-bit kernels don't take the DTensors of fsdp2"},
    OptimizerRow{OptimizerKind::kLion, make_lion, {}},
    OptimizerRow{OptimizerKind::kMuon, make_muon, "how it multiplies sharded matrices isn't modelled yet"},
};

const OptimizerRow* find_row(OptimizerKind kind) {
  const auto found = std::ranges::find(kOptimizers, kind, &OptimizerRow::kind);
  return found == kOptimizers.end() ? nullptr : found;
}

std::vector<std::string> optimizers_of_shards() {
  std::vector<std::string> names;
  for (const std::string& name : optimizer_names()) {
    const Optimizer optimizer = *optimizer_from_name(name);
    const OptimizerRow* const row = find_row(optimizer.kind);
    if (has_known_step(optimizer) && (row == nullptr || row->why_no_shards.empty())) names.push_back(name);
  }
  return names;
}

}  // namespace

Result<void> check_optimizer(const ResolvedJob& job) {
  if (job.optimizer.kind == OptimizerKind::kNone) return {};
  const OptimizerRow* const row = find_row(job.optimizer.kind);
  if (row == nullptr)
    return fail({.position = {.key = "optimizer.name"},
                 .message = fmt::format("optimizer.name = {} is not supported with framework pytorch",
                                        name_of(job.optimizer))});
  if (job.engine == DataParallelEngine::kFsdp2 && !row->why_no_shards.empty())
    return fail({.position = {.key = "optimizer.name"},
                 .message = fmt::format("optimizer.name = {} is not supported under fsdp2: {}",
                                        name_of(job.optimizer), row->why_no_shards),
                 .expected = fmt::format("one of {}", fmt::join(optimizers_of_shards(), ", ")),
                 .hint = "on one GPU and with parallel.engine = ddp it is"});
  return {};
}

Result<std::unique_ptr<OptimizerRecipe>> make_optimizer(const OptimizerContext& context) {
  PLIMSOLL_CHECK(check_optimizer(context.job));
  const OptimizerRow* const row = find_row(context.job.optimizer.kind);
  return row == nullptr ? nullptr : row->make(context);
}

std::vector<Value> foreach_like(Recorder& recorder, OpKind kind, std::vector<Value> inputs) {
  std::vector<Value*> pointers;
  std::vector<Recorder::Result> results;
  for (Value& v : inputs) {
    pointers.push_back(&v);
    results.push_back({v.layout().like(), v.dtype()});
  }
  return recorder.emit_many(kind, pointers, results);
}

void update(Recorder& recorder, OpKind kind, const std::vector<TrainedTensor>& tensors) {
  std::vector<TensorId> ids;
  ids.reserve(2 * tensors.size());
  for (const TrainedTensor& t : tensors) {
    ids.push_back(t.parameter.id());
    ids.push_back(t.gradient.id());
  }
  recorder.emit_effect(kind, ids);
}

void update(const Value& changed, std::initializer_list<const Value*> read) {
  std::vector<TensorId> ids{changed.id()};
  for (const Value* v : read) ids.push_back(v->id());
  changed.recorder().emit_effect(OpKind::kForeachUpdate, ids);
}

Value zeros_state(const Value& parameter, DType dtype) {
  const StateScope state(parameter);
  return ops::zeros(parameter.recorder(), parameter.layout().like(), dtype);
}

Value norm(Value x) {
  const DType dtype = x.dtype();
  return x.recorder().emit(OpKind::kVectorNorm, {&x},
                           {Layout::contiguous(std::initializer_list<int64_t>{}), dtype});
}

std::vector<std::vector<size_t>> groups_by_dtype(const std::vector<Value>& tensors) {
  std::vector<std::vector<size_t>> groups;
  std::vector<DType> dtypes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    size_t g = 0;
    while (g < dtypes.size() && dtypes[g] != tensors[i].dtype()) ++g;
    if (g == dtypes.size()) {
      dtypes.push_back(tensors[i].dtype());
      groups.emplace_back();
    }
    groups[g].push_back(i);
  }
  return groups;
}

}  // namespace plimsoll::pytorch
