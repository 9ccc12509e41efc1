// DistributedDataParallel: every rank holds everything; gradients are copied into flat buckets that are
// all-reduced as soon as their parameters' gradients are there. A bucket has one dtype. At first one takes
// all; before the second forward the buckets are made anew in the order in which gradients became ready. With
// find_unused_parameters they stay as they are made, in the parameters' order, and a map of what was used
// lies beside them; what the model returns is cloned (forward.cc).
// Source: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp (2.13). Does not model:
// static_graph, communication hooks that keep copies (PowerSGD), the flat copies that broadcast the
// parameters when the wrapper is built; parameters that are in fact unused.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "frameworks/pytorch/engine.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

// Where a parameter's gradient lies in its bucket.
struct Place {
  size_t bucket = 0;
};

class Ddp : public ParallelEngine {
 public:
  Ddp(Recorder& recorder, const ResolvedJob& job)
      : r_(recorder),
        settings_(job.ddp),
        gathers_gradients_apart_(job.loop.no_sync && job.batch.accumulation > 1 &&
                                 job.loop.zero_grad == ZeroGrad::kSetToNone),
        dtype_(parameter_dtype(job.precision)) {}

  DType compute_dtype() const override { return dtype_; }

  void take_over(std::vector<Value> parameters, std::vector<Value> buffers) override {
    parameters_ = std::move(parameters);
    buffers_ = std::move(buffers);
    std::vector<size_t> all;
    for (size_t i = 0; i < parameters_.size(); ++i)
      if (parameters_[i].requires_grad()) all.push_back(i);
    if (!settings_.find_unused_parameters) {
      make_buckets(assign(all, {std::numeric_limits<int64_t>::max()}));
      return;
    }
    std::vector<std::vector<size_t>> assignment = assign(all, bucket_limits());
    std::ranges::sort(assignment, std::greater(), [](const auto& members) { return members.front(); });
    make_buckets(assignment);
    make_map_of_used(static_cast<int64_t>(all.size()));
  }

  Value compute_parameter(size_t i) const override { return parameters_[i]; }

  void begin_micro_step(bool is_training, bool communicates) override {
    communicates_ = communicates;
    const bool may_rebuild = is_training && !settings_.find_unused_parameters;
    if (may_rebuild && !ready_order_.empty() && !is_rebuilt_) rebuild();
    if (syncs_buffers_) sync_buffers();
    syncs_buffers_ = is_training && communicates;
  }

  void accumulate(TensorId parameter, Value gradient) override {
    Value& kept = gradients_[parameter.value];
    accumulate_gradient(r_, parameter, std::move(gradient), kept, Category::kGradient);
    if (!communicates_) return;
    const size_t index = index_of(parameter);
    if (!is_rebuilt_) ready_order_.push_back(index);
    reduce(index, kept);
  }

  std::vector<TrainedTensor> trained_tensors() const override {
    std::vector<TrainedTensor> tensors;
    for (const Value& p : parameters_)
      if (const auto g = gradients_.find(p.id().value); g != gradients_.end() && g->second)
        tensors.push_back({.parameter = p, .gradient = g->second});
    return tensors;
  }

  void zero_gradients(ZeroGrad mode) override {
    if (mode == ZeroGrad::kSetToNone) gradients_.clear();
  }

 private:
  size_t index_of(TensorId parameter) const {
    size_t i = 0;
    while (parameters_[i].id() != parameter) ++i;
    return i;
  }

  // ---- buckets ----

  void make_buckets(const std::vector<std::vector<size_t>>& assignment) {
    const With<Holder> holder(r_.holder, Holder::kCommunication);
    // Gradients that live in the buckets are what the bytes are for.
    const bool holds_gradients = settings_.gradient_as_bucket_view && !gathers_gradients_apart_;
    const With<Category> category(r_.category,
                                  holds_gradients ? Category::kGradient : Category::kCommunicationBucket);
    buckets_.clear();
    for (const std::vector<size_t>& members : assignment) {
      int64_t elements = 0;
      for (size_t i : members) elements += parameters_[i].layout().elements();
      for (size_t i : members) places_[i] = {.bucket = buckets_.size()};
      buckets_.push_back(ops::empty(r_, {elements}, parameters_[members[0]].dtype()));
    }
    if (!settings_.gradient_as_bucket_view) return;
    for (size_t i = 0; i < parameters_.size(); ++i)  // gradients that exist move into the new buckets
      if (Value& kept = gradients_[parameters_[i].id().value]; kept) move_into_bucket(i, kept);
  }

  // local_used_map_dev_
  void make_map_of_used(int64_t parameters) {
    const With<Category> category(r_.category, Category::kCommunicationBucket);
    used_ = ops::empty(r_, {parameters}, DType::kInt32);
  }

  // BucketCapacityConfig
  std::vector<int64_t> bucket_limits() const {
    const auto cap = static_cast<int64_t>(settings_.bucket_cap_mb * 1024 * 1024);
    const bool is_default = settings_.bucket_cap_mb == DdpSettings().bucket_cap_mb;
    return {is_default ? kDdpFirstBucketBytes : cap, cap};
  }

  // compute_bucket_assignment_by_size: a bucket that reaches its limit is done; the last limit is that of all
  // later buckets of the dtype.
  std::vector<std::vector<size_t>> assign(const std::vector<size_t>& order,
                                          const std::vector<int64_t>& limits) const {
    struct Filling {
      std::vector<size_t> members;
      int64_t bytes = 0;
      size_t limit = 0;
    };
    std::map<DType, Filling> by_dtype;
    std::vector<std::vector<size_t>> assignment;
    for (size_t i : order) {
      Filling& filling = by_dtype[parameters_[i].dtype()];
      filling.members.push_back(i);
      filling.bytes += parameters_[i].layout().elements() * bytes_of(parameters_[i].dtype());
      if (filling.bytes < limits[filling.limit]) continue;
      assignment.push_back(std::exchange(filling.members, {}));
      filling.bytes = 0;
      filling.limit = std::min(filling.limit + 1, limits.size() - 1);
    }
    for (auto& [dtype, filling] : by_dtype)
      if (!filling.members.empty()) assignment.push_back(std::move(filling.members));
    return assignment;
  }

  void rebuild() {
    is_rebuilt_ = true;
    make_buckets(assign(ready_order_, bucket_limits()));
  }

  Value place_in_bucket(size_t i) {
    Value bucket = buckets_[places_[i].bucket];
    return r_.emit_view(OpKind::kView, bucket, Layout(parameters_[i].layout()));
  }

  void move_into_bucket(size_t i, Value& kept) {
    Value place = place_in_bucket(i);
    kept = ops::copy_(std::move(place), std::move(kept));
  }

  void reduce(size_t i, Value& kept) {
    const Value& bucket = buckets_[places_[i].bucket];
    const bool is_view = kept.info().storage == bucket.info().storage;
    if (settings_.gradient_as_bucket_view && !is_view) move_into_bucket(i, kept);
    r_.emit_effect(OpKind::kAllReduce, std::vector<TensorId>{bucket.id()});
  }

  // _sync_buffers: one flat copy per dtype is broadcast.
  void sync_buffers() {
    if (!settings_.broadcast_buffers || buffers_.empty()) return;
    const With<Category> temporary(r_.category, Category::kTemporary);
    const With<bool> no_grad(r_.is_grad_enabled, false);
    std::map<DType, std::vector<Value>> by_dtype;
    for (const Value& b : buffers_) by_dtype[b.dtype()].push_back(ops::reshape(b, {-1}));
    for (auto& [dtype, parts] : by_dtype) {
      const Value flat = parts.size() == 1 ? parts[0] : ops::cat(parts, 0);  // flatten_dense_tensors
      r_.emit_effect(OpKind::kBroadcast, std::vector<TensorId>{flat.id()});
    }
  }

  Recorder& r_;
  const DdpSettings& settings_;
  bool gathers_gradients_apart_;  // under no_sync they come into being beside the buckets
  DType dtype_;
  std::vector<Value> parameters_, buffers_, buckets_;
  Value used_;                           // find_unused_parameters: which parameters had a gradient
  std::map<uint32_t, Value> gradients_;  // by parameter tensor
  std::map<size_t, Place> places_;       // by parameter
  std::vector<size_t> ready_order_;      // parameters in the order in which their gradients came first
  bool is_rebuilt_ = false;
  bool communicates_ = true;
  bool syncs_buffers_ = true;
};

}  // namespace

std::unique_ptr<ParallelEngine> make_ddp(Recorder& recorder, const ResolvedJob& job) {
  return std::make_unique<Ddp>(recorder, job);
}

}  // namespace plimsoll::pytorch
