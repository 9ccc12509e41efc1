// FSDP2 (fully_shard on each block, then on the root) as its runtime does it: what is gathered when, what
// holds each buffer and when it is given back. Streams as PyTorch uses them: gathers and reductions have
// their own. Source:
// torch/distributed/fsdp/_fully_shard/{_fsdp_state,_fsdp_param_group,_fsdp_param,_fsdp_collectives}.py, 2.13.
// Does not model: shard placements other than dim 0, several param groups per module, post-forward meshes,
// symmetric memory.
#include <optional>
#include <unordered_map>

#include "frameworks/pytorch/engine.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

enum class State { kIdle, kForward, kPreBackward, kPostBackward };

struct ShardedParameter {
  Layout layout;       // unsharded
  int64_t padded = 0;  // elements of the unsharded tensor, dim 0 padded to a multiple of the ranks
  DType gathered_dtype = DType::kFloat32;
  Value shard;      // the rank's own, dim 0 divided
  Value unsharded;  // what the modules see; its storage comes and goes
  Value unsharded_gradient;
  Value accumulated_gradient;  // in the dtype of the reduction, over micro-batches without communication
  Value gradient;              // of the shard
};

struct Group {
  std::vector<size_t> members;  // parameters
  bool reshards_after_forward = true;
  State state = State::kIdle;
  bool is_unsharded = false;
  Value gathered;                   // all-gather result that waits for its copy-out
  std::vector<size_t> order_index;  // where it stands in the post-forward order
  Value all_reduce_input;           // HSDP: held to the end of the backward
};

class Fsdp2 : public ParallelEngine {
 public:
  Fsdp2(Recorder& recorder, const Architecture& architecture, const ResolvedJob& job,
        const std::vector<bool>& trainable, const ShardingPlan& plan)
      : r_(recorder),
        a_(architecture),
        job_(job),
        trainable_(trainable),
        original_(parameter_dtype(job.precision)),
        compute_(job.fsdp2.param_dtype.value_or(original_)),
        reduce_(job.fsdp2.reduce_dtype.value_or(compute_)) {
    for (const ShardingUnit& unit : plan.units)
      groups_.push_back({.members = unit.members,
                         .reshards_after_forward = unit.reshards_after_forward,
                         .order_index = {}});
    gathered_dtypes_.assign(architecture.parameters.size(), compute_);
    for (size_t i : plan.gathered_in_float8) gathered_dtypes_[i] = DType::kFloat8;
    embedding_group_ = plan.embedding;
    head_group_ = plan.head;
  }

  DType compute_dtype() const override { return compute_; }

  void take_over(std::vector<Value> full, std::vector<Value>) override {
    parameters_.resize(full.size());
    // Blocks first, then the root: each makes its shards, then lets go of what it sharded.
    for (size_t g = 1; g < groups_.size(); ++g) shard(groups_[g], full);
    shard(groups_[0], full);
  }

  void take_over_meta(const std::vector<Layout>& layouts) override {
    parameters_.resize(layouts.size());
    for (size_t g = 1; g <= groups_.size(); ++g)
      for (size_t i : groups_[g % groups_.size()].members) parameters_[i] = sharded(i, layouts[i]);
  }

  void mark_units(Program& forward) override {
    group_of_region_.assign(forward.regions.size(), 0);
    size_t block = 0;
    for (size_t i = 0; i < forward.regions.size(); ++i) {
      Region& region = forward.regions[i];
      std::optional<size_t> group;
      if (region.kind == RegionKind::kModel) group = 0;
      if (region.kind == RegionKind::kBlock) group = 1 + block++;
      if (region.kind == RegionKind::kEmbedding) group = embedding_group_;
      if (region.kind == RegionKind::kHead) group = head_group_;
      region.is_unit = group.has_value();
      group_of_region_[i] = group.value_or(0);
    }
  }

  Value compute_parameter(size_t i) const override { return parameters_[i].unsharded; }

  void begin_micro_step(bool, bool communicates) override { reduces_ = communicates; }

  std::vector<TrainedTensor> trained_tensors() const override {
    std::vector<TrainedTensor> tensors;
    for (const ShardedParameter& p : parameters_)
      if (p.gradient) tensors.push_back({.parameter = p.shard, .gradient = p.gradient});
    return tensors;
  }

  void zero_gradients(ZeroGrad mode) override {
    if (mode != ZeroGrad::kSetToNone) return;
    for (ShardedParameter& p : parameters_) p.gradient.reset();
  }

  // ---- hooks ----

  void accumulate(TensorId parameter, Value gradient) override {
    ShardedParameter& p = parameters_[parameter_of_.at(parameter.value)];
    accumulate_gradient(r_, parameter, std::move(gradient), p.unsharded_gradient,
                        Category::kUnshardedGradient);
  }

  void before_forward(RegionId region) override {
    Group& g = group_of(region);
    if (g.members.empty()) return;
    g.state = State::kForward;
    unshard(g);
    wait_for_unshard(g);
  }

  void after_forward(RegionId region) override {
    Group& g = group_of(region);
    if (!g.members.empty()) {
      if (g.reshards_after_forward) reshard(g);
      g.order_index.push_back(post_forward_order_.size());
      post_forward_order_.push_back(group_of_region_[region.value]);
      g.state = State::kIdle;
    }
    if (group_of_region_[region.value] == 0) gathered_in_forward_.reset();
    if (!r_.is_grad_enabled) forget_order();
  }

  void before_backward(RegionId region) override {
    Group& g = group_of(region);
    if (g.members.empty() || g.state == State::kPreBackward) return;
    g.state = State::kPreBackward;
    unshard(g);
    wait_for_unshard(g);
    if (g.order_index.empty()) return;
    const size_t index = g.order_index.back();
    g.order_index.pop_back();
    if (index > 0) prefetch(groups_[post_forward_order_[index - 1]]);
  }

  void after_backward(RegionId region) override { post_backward(group_of(region)); }

  void at_backward_end() override {
    const With<Holder> holder(r_.holder, Holder::kCommunication);
    for (Group& g : groups_) {
      if (g.state != State::kPostBackward) post_backward(g);
      g.state = State::kIdle;
      g.all_reduce_input.reset();
      g.gathered.reset();
    }
    forget_order();
    reduce_scatter_input_.reset();
  }

 private:
  int64_t ranks() const { return job_.mesh.shard; }

  Group& group_of(RegionId region) { return groups_[group_of_region_[region.value]]; }

  // ---- load ----

  void shard(const Group& g, std::vector<Value>& full) {
    for (size_t i : g.members) parameters_[i] = sharded(i, full[i].layout());
    for (size_t i : g.members) full[i].reset();
  }

  ShardedParameter sharded(size_t i, const Layout full) {
    ShardedParameter p{.layout = full, .gathered_dtype = gathered_dtypes_[i]};
    std::vector<int64_t> sizes(full.shape().begin(), full.shape().end());
    sizes[0] = divide_up(sizes[0], ranks());
    p.padded = saturating_multiply(Layout::contiguous(sizes).elements(), ranks());
    const ModuleId owner = r_.program().module(a_.parameters[i].name);
    const With<ModuleId> module(r_.module, owner);
    {
      const With<Category> category(r_.category, Category::kParameter);
      p.shard = ops::zeros(r_, Layout::contiguous(sizes), original_);
    }
    if (job_.fsdp2.cpu_offload)
      p.shard = to_host(std::move(p.shard), Category::kParameter, job_.fsdp2.pin_memory);
    p.unsharded = r_.persistent(full, compute_, Category::kUnshardedParameter, owner, trainable_[i]);
    parameter_of_[p.unsharded.id().value] = i;
    r_.program().storages[p.unsharded.info().storage.value].bytes = bytes_when_gathered(p);
    return p;
  }

  // ---- gathering ----

  void unshard(Group& g) {
    if (g.gathered || g.is_unsharded || g.members.empty()) return;
    const With<Category> category(r_.category, Category::kGatherBuffer);
    const With<Holder> holder(r_.holder, Holder::kCommunication);
    const With<Stream> stream(r_.stream, Stream::kAllGather);
    const With<std::optional<OpKind>> none(r_.backward_of, std::nullopt);
    int64_t elements = 0, bytes = 0;
    for (size_t i : g.members) {
      elements += parameters_[i].padded;
      bytes += bytes_when_gathered(parameters_[i]).value;
    }
    const bool is_mixed = bytes != elements * bytes_of(compute_);
    std::vector<Value> copied;  // the shards on the device in the compute dtype, where they aren't so already
    if (job_.fsdp2.cpu_offload) {
      for (size_t i : g.members) copied.push_back(ops::cast(to_device(parameters_[i].shard), compute_));
    } else if (is_mixed) {
      copied = cast_shards(g);
    } else if (compute_ != original_) {
      copied.push_back(ops::empty(r_, {elements / ranks()}, compute_));
    }
    // Of several dtypes the buffer is one of bytes.
    g.gathered = is_mixed ? ops::empty(r_, {bytes}, DType::kFloat8) : ops::empty(r_, {elements}, compute_);
    r_.emit_effect(OpKind::kAllGather, std::vector<TensorId>{g.gathered.id()});
  }

  static Bytes bytes_when_gathered(const ShardedParameter& p) {
    return Bytes{p.padded} * bytes_of(p.gathered_dtype);
  }

  // fsdp_pre_all_gather casts each weight by itself, all others are cast into one buffer.
  std::vector<Value> cast_shards(const Group& g) {
    std::vector<Value> copied;
    int64_t others = 0;
    for (size_t i : g.members) {
      const ShardedParameter& p = parameters_[i];
      if (p.gathered_dtype == compute_)
        others += p.padded / ranks();
      else
        copied.push_back(ops::empty(r_, {p.padded / ranks()}, p.gathered_dtype));
    }
    if (compute_ != original_ && others > 0) copied.push_back(ops::empty(r_, {others}, compute_));
    return copied;
  }

  void wait_for_unshard(Group& g) {
    if (!g.gathered) return;
    const With<Holder> holder(r_.holder, Holder::kCommunication);
    const With<std::optional<OpKind>> none(r_.backward_of, std::nullopt);
    const bool is_forward = g.state == State::kForward;
    // In the forward the result before lives until this copy-out is issued, and this one until the next.
    Value previous;
    if (is_forward) previous = std::move(gathered_in_forward_);
    std::vector<TensorId> outputs;
    for (size_t i : g.members) outputs.push_back(parameters_[i].unsharded.id());
    r_.emit_allocation(OpKind::kResize, outputs);
    g.is_unsharded = true;
    if (is_forward) gathered_in_forward_ = std::move(g.gathered);
    g.gathered.reset();
  }

  void prefetch(Group& g) { unshard(g); }

  void reshard(Group& g) {
    if (!g.is_unsharded) return;
    for (size_t i : g.members)
      r_.free_storage(parameters_[i].unsharded.info().storage, Holder::kCommunication);
    g.is_unsharded = false;
  }

  // ---- CPUOffloadPolicy ----

  Value to_host(Value x, Category category, bool is_pinned) {
    const With<Category> c(r_.category, category);
    const With<Tier> tier(r_.tier, is_pinned ? Tier::kHostPinned : Tier::kHost);
    const With<Stream> stream(r_.stream, Stream::kCopyOut);
    const Recorder::Result result{Layout::contiguous(x.layout().shape()), x.dtype()};
    return r_.emit(OpKind::kCopyToHost, {&x}, result);
  }
  Value to_device(Value x) {
    const Recorder::Result result{x.layout(), x.dtype()};
    return r_.emit(OpKind::kCopyToDevice, {&x}, result);
  }

  // ---- reducing ----

  void post_backward(Group& g) {
    const With<std::optional<OpKind>> none(r_.backward_of, std::nullopt);
    const With<Holder> holder(r_.holder, Holder::kCommunication);
    g.state = State::kPostBackward;
    for (size_t i : g.members) add_to_accumulated(parameters_[i]);
    if (!reduces_) {
      reshard(g);
      for (size_t i : g.members) keep_for_later(parameters_[i]);
      return;
    }
    std::vector<size_t> with_gradient;
    std::vector<Value> gradients;
    for (size_t i : g.members) {
      ShardedParameter& p = parameters_[i];
      Value& gradient = p.accumulated_gradient ? p.accumulated_gradient : p.unsharded_gradient;
      if (!gradient) continue;
      with_gradient.push_back(i);
      gradients.push_back(std::move(gradient));
    }
    reshard(g);
    reduce_scatter_input_.reset();
    if (!with_gradient.empty()) reduce(g, with_gradient, std::move(gradients));
  }

  void add_to_accumulated(ShardedParameter& p) {
    if (!p.accumulated_gradient || !p.unsharded_gradient) return;
    p.accumulated_gradient = ops::add_(std::move(p.accumulated_gradient), std::move(p.unsharded_gradient));
  }

  void keep_for_later(ShardedParameter& p) {
    if (!p.unsharded_gradient || reduce_ == compute_) return;
    const With<Category> category(r_.category, Category::kAccumulatedGradient);
    p.accumulated_gradient = ops::cast(std::move(p.unsharded_gradient), reduce_);
  }

  void reduce(Group& g, const std::vector<size_t>& members, std::vector<Value> gradients) {
    const With<Category> category(r_.category, Category::kReduceBuffer);
    const DType dtype = reduce_;
    int64_t elements = 0;
    for (size_t i : members) elements += parameters_[i].padded;
    Value input = ops::empty(r_, {elements}, dtype);
    // A loop variable of foreach_reduce keeps the last gradient to the end of the call.
    const Value last = ranks() > 1 ? gradients.back() : Value();
    gradients.clear();
    Value output;
    {
      const With<Stream> stream(r_.stream, Stream::kReduceScatter);
      output = ops::empty(r_, {elements / ranks()}, dtype);
      r_.emit_effect(OpKind::kReduceScatter, std::vector<TensorId>{output.id(), input.id()});
      if (job_.mesh.replicate > 1) {
        r_.emit_effect(OpKind::kAllReduce, std::vector<TensorId>{output.id()});
        g.all_reduce_input = output;
      }
      output = ops::cast(std::move(output), original_);
    }
    view_out(members, output);
    output.reset();
    reduce_scatter_input_ = std::move(input);
  }

  void view_out(const std::vector<size_t>& members, const Value& output) {
    for (size_t i : members) {
      ShardedParameter& p = parameters_[i];
      Value base = output;
      Value part = r_.emit_view(OpKind::kView, base, Layout(p.shard.layout()));
      if (job_.fsdp2.cpu_offload) {  // asynchronous into pinned memory, unless the host has to add
        const bool is_pinned = job_.fsdp2.pin_memory && !p.gradient;
        part = to_host(std::move(part), Category::kGradient, is_pinned);
      }
      if (p.gradient) {
        p.gradient = ops::add_(std::move(p.gradient), std::move(part));
      } else {
        r_.program().storages[part.info().storage.value].category = Category::kGradient;
        p.gradient = std::move(part);
      }
    }
  }

  void forget_order() {
    post_forward_order_.clear();
    for (Group& g : groups_) g.order_index.clear();
  }

  Recorder& r_;
  const Architecture& a_;
  const ResolvedJob& job_;
  const std::vector<bool>& trainable_;
  DType original_, compute_, reduce_;
  std::vector<DType> gathered_dtypes_;  // by parameter
  std::vector<ShardedParameter> parameters_;
  std::unordered_map<uint32_t, size_t> parameter_of_;  // by unsharded tensor
  std::vector<Group>
      groups_;  // 0 is the root, then the blocks, then embedding and head when they are split off
  std::optional<size_t> embedding_group_, head_group_;
  std::vector<size_t> group_of_region_;
  std::vector<size_t> post_forward_order_;
  Value gathered_in_forward_;   // the last all-gather result of the forward
  Value reduce_scatter_input_;  // of the last reduction: held until the next one
  bool reduces_ = true;
};

}  // namespace

std::unique_ptr<ParallelEngine> make_fsdp2(Recorder& recorder, const Architecture& architecture,
                                           const ResolvedJob& job, const std::vector<bool>& trainable,
                                           const ShardingPlan& plan) {
  return std::make_unique<Fsdp2>(recorder, architecture, job, trainable, plan);
}

}  // namespace plimsoll::pytorch
