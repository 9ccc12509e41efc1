#include "program/autograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <queue>
#include <unordered_map>

#include "program/op_table.h"
#include "program/ops.h"

namespace plimsoll {
namespace {

using NodeIndex = uint32_t;
using FrameIndex = uint32_t;

struct Edge {
  NodeIndex node = 0;
  uint32_t slot = 0;  // which of the node's gradients
};

enum class NodeKind : uint8_t { kOp, kAccumulate, kCheckpoint, kUnitBoundary };

struct Saved {
  bool is_output = false;
  uint8_t index = 0;  // of the op's inputs or outputs
  Value value;        // held here, or ...
  uint32_t slot = 0;  // ... found again in the frame's slot
};

struct Node {
  NodeKind kind = NodeKind::kOp;
  const Op* op = nullptr;
  uint64_t sequence = 0;
  uint32_t references = 0;                // tensors whose gradient function it is, and nodes that lead to it
  uint32_t needed = 0;                    // kOp: bit i is input i
  std::vector<std::optional<Edge>> next;  // one per input
  std::vector<TensorInfo> outputs;        // what the gradients must look like, one per output
  std::vector<Saved> saved;
  std::optional<FrameIndex> frame;
  std::vector<RegionId> before;  // units whose results these are
  RegionId region;               // kCheckpoint, kUnitBoundary
  TensorId parameter;            // kAccumulate
  // While a backward runs:
  std::vector<Value> gradients;
  uint32_t waits_for = 0;
  bool has_gradient = false;
};

// One call of a non-reentrant checkpoint. Its saved tensors are slots, filled when the first is wanted.
struct Frame {
  RegionId region;
  std::vector<std::pair<TensorId, Value>> held;  // tensors from outside that the recomputation reads
  uint32_t slots = 0;
  uint32_t references = 0;  // nodes with slots
  bool is_recomputed = false;
  std::vector<Value> recomputed;
  std::unordered_map<uint32_t, std::vector<Value>>
      kept;  // by statement: results that a selective policy keeps
};

}  // namespace

class Autograd::Impl {
 public:
  Impl(Recorder& r, const Program& f, GradientSink& sink, UnitHooks* hooks, AutogradOptions options,
       std::optional<Error>& error)
      : r_(r),
        f_(f),
        sink_(sink),
        hooks_(hooks),
        options_(options),
        error_(error),
        locals_(f.tensors.size()) {
    r_.set_on_tensor_dead([this](TensorId id) { tensor_died(id); });
    index_regions();
  }
  ~Impl() {
    locals_.clear();
    r_.set_on_tensor_dead(nullptr);
  }

  void bind(TensorId forward_tensor, Value value) { locals_[forward_tensor.value] = std::move(value); }

  void play(bool with_graph) {
    const With<bool> mode(r_.is_grad_enabled, with_graph);
    play(0, static_cast<uint32_t>(f_.statements.size()));
  }
  Value local(TensorId id) { return locals_[id.value]; }
  void release_locals() {
    for (size_t i = 0; i < locals_.size(); ++i) locals_[i].reset();
  }

  void backward(Value root) {
    const With<bool> mode(r_.is_grad_enabled, false);
    const With<Category> category(r_.category, Category::kTemporary);
    const std::optional<Edge> edge = gradient_edge(root.id());
    assert(edge && "the root requires no gradient");
    Value ones = ops::ones_like(root);
    run({{*edge, ones}});
    if (hooks_) hooks_->at_backward_end();
    ones.reset();
    root.reset();
  }

 private:
  // ---- forward ----

  struct RegionRange {
    uint32_t begin = 0, end = 0;  // statements of kBegin and kEnd
  };

  void index_regions() {
    ranges_.resize(f_.regions.size());
    for (uint32_t i = 0; i < f_.statements.size(); ++i) {
      const Statement& s = f_.statements[i];
      if (s.kind == StatementKind::kBegin) ranges_[s.index].begin = i;
      if (s.kind == StatementKind::kEnd) ranges_[s.index].end = i;
    }
  }

  void play(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; ++i) i = play_statement(i);
  }

  // Returns the last statement it played.
  uint32_t play_statement(uint32_t i) {
    const Statement& s = f_.statements[i];
    switch (s.kind) {
      case StatementKind::kOp:
        play_op(i, f_.ops[s.index]);
        break;
      case StatementKind::kDrop:
        locals_[s.index].reset();
        break;
      case StatementKind::kBegin:
        return begin_region(i, RegionId{s.index});
      case StatementKind::kEnd:
        end_region(RegionId{s.index});
        break;
      case StatementKind::kFree:
        assert(false && "a free in a forward program");
        break;
    }
    return i;
  }

  // A unit's hooks stay outside a checkpoint of the same call: they don't run again with it.
  uint32_t begin_region(uint32_t i, RegionId id) {
    const Region& region = f_.regions[id.value];
    if (is_replaying_) return i;
    if (is_unit(id)) enter_unit(id);
    if (!r_.is_grad_enabled || region.checkpoint == Checkpoint::kNone) return i;
    if (region.checkpoint == Checkpoint::kReentrant) {
      const uint32_t end = play_reentrant(id);
      end_region(id);
      return end;
    }
    frames_.push_back({.region = id});
    current_frame_ = static_cast<FrameIndex>(frames_.size() - 1);
    hold_outside_tensors(frames_.back());
    return i;
  }

  void end_region(RegionId id) {
    if (is_replaying_) return;
    if (current_frame_ && frames_[*current_frame_].region == id) current_frame_.reset();
    if (is_unit(id)) leave_unit(id);
  }

  bool is_unit(RegionId id) const { return hooks_ && f_.regions[id.value].is_unit; }

  void enter_unit(RegionId id) {
    hooks_->before_forward(id);
    if (!r_.is_grad_enabled) return;
    // The arguments pass through a function whose backward tells that the unit is done.
    std::vector<TensorId> arguments;
    for (TensorId t : f_.regions[id.value].arguments)
      if (locals_[t.value] && locals_[t.value].requires_grad()) arguments.push_back(t);
    if (arguments.empty()) return;
    const NodeIndex node =
        new_node({.kind = NodeKind::kUnitBoundary, .sequence = next_sequence_++, .region = id});
    for (uint32_t k = 0; k < arguments.size(); ++k) {
      Value& local = locals_[arguments[k].value];
      add_edge(node, edge_to(local.id()));
      nodes_[node].outputs.push_back(local.info());
      Value argument = local;
      Value passed = r_.emit_view(OpKind::kBoundary, argument, Layout(local.layout()));
      set_gradient_function(passed.id(), node, k);
      local = std::move(passed);
    }
  }

  void leave_unit(RegionId id) {
    hooks_->after_forward(id);
    if (!r_.is_grad_enabled) return;
    for (TensorId t : f_.regions[id.value].results)
      if (const Value& v = locals_[t.value]; v && v.requires_grad())
        if (const auto edge = gradient_edge(v.id())) nodes_[edge->node].before.push_back(id);
  }

  void play_op(uint32_t statement, const Op& op) {
    gather_inputs(op);
    const uint32_t needed = needed_inputs(op);
    const bool makes_node = needed != 0 && has_gradient_output(op);
    std::optional<NodeIndex> node;
    if (makes_node) node = make_node(op, needed);
    execute(statement, op);
    if (node) finish_node(*node, op);
    for (size_t k = 0; k < outputs_.size(); ++k) locals_[f_.outputs(op)[k].value] = std::move(outputs_[k]);
    outputs_.clear();
  }

  void gather_inputs(const Op& op) {
    input_ids_.clear();
    for (TensorId t : f_.inputs(op)) {
      assert(locals_[t.value] && "an op reads a tensor that was dropped");
      input_ids_.push_back(locals_[t.value].id());
    }
  }

  uint32_t needed_inputs(const Op& op) const {
    if (!r_.is_grad_enabled || !op_row(op.kind).is_differentiable) return 0;
    uint32_t needed = 0;
    for (size_t i = 0; i < input_ids_.size(); ++i) {
      const TensorInfo& info = r_.info(input_ids_[i]);
      if (info.requires_grad && is_floating(info.dtype)) needed |= 1U << i;
    }
    return needed;
  }

  bool has_gradient_output(const Op& op) const {
    for (TensorId t : f_.outputs(op))
      if (f_.tensor(t).requires_grad) return true;
    return false;
  }

  NodeIndex make_node(const Op& op, uint32_t needed) {
    const NodeIndex index =
        new_node({.kind = NodeKind::kOp, .op = &op, .sequence = next_sequence_++, .needed = needed});
    for (size_t i = 0; i < input_ids_.size(); ++i)
      add_edge(index, (needed & (1U << i)) ? edge_to(input_ids_[i]) : std::nullopt);
    const Saves saves = saves_of(op, needed);
    for (uint8_t i = 0; i < op.input_count; ++i)
      if (saves.inputs & (1U << i)) save(index, false, i, r_.value(input_ids_[i]));
    return index;
  }

  static Saves saves_for(const Program& f, const Op& op, uint32_t needed) {
    const OpRow& row = op_row(op.kind);
    return row.saves ? row.saves(f, op, needed) : Saves{};
  }
  Saves saves_of(const Op& op, uint32_t needed) const { return saves_for(f_, op, needed); }

  void finish_node(NodeIndex index, const Op& op) {
    const Saves saves = saves_of(op, nodes_[index].needed);
    for (uint8_t k = 0; k < op.output_count; ++k) {
      nodes_[index].outputs.push_back(outputs_[k].info());
      if (outputs_[k].requires_grad()) set_gradient_function(outputs_[k].id(), index, k);
      if (saves.outputs & (1U << k)) save(index, true, k, outputs_[k]);
    }
  }

  void save(NodeIndex index, bool is_output, uint8_t position, Value value) {
    Saved saved{.is_output = is_output, .index = position};
    if (current_frame_) {
      Frame& frame = frames_[*current_frame_];
      saved.slot = frame.slots++;
      if (!nodes_[index].frame) {
        nodes_[index].frame = current_frame_;
        ++frame.references;
      }
    } else {
      saved.value = std::move(value);
    }
    nodes_[index].saved.push_back(std::move(saved));
  }

  void execute(uint32_t statement, const Op& op) {
    const With<ModuleId> module(r_.module, r_.program().module(f_.module_name(op.module)));
    if (replayed_frame_) {
      auto& kept = frames_[*replayed_frame_].kept;
      if (const auto found = kept.find(statement); found != kept.end()) {
        for (Value& v : found->second) outputs_.push_back(std::move(v));
        kept.erase(found);
        return;
      }
    }
    r_.replay(f_, op, input_ids_, outputs_);
    if (current_frame_ && keeps_result(op)) {
      std::vector<Value>& kept = frames_[*current_frame_].kept[statement];
      kept.assign(outputs_.begin(), outputs_.end());
    }
  }

  bool keeps_result(const Op& op) const {
    const Region& region = f_.regions[frames_[*current_frame_].region.value];
    return region.checkpoint == Checkpoint::kSelective &&
           std::ranges::find(region.kept, op.kind) != region.kept.end();
  }

  // ---- graph ----

  NodeIndex new_node(Node node) {
    nodes_.push_back(std::move(node));
    return static_cast<NodeIndex>(nodes_.size() - 1);
  }

  void add_edge(NodeIndex from, std::optional<Edge> to) { nodes_[from].next.push_back(to); }

  void set_gradient_function(TensorId id, NodeIndex node, uint32_t slot) {
    if (gradient_functions_.size() <= id.value) gradient_functions_.resize(id.value + 1 + id.value / 2);
    gradient_functions_[id.value] = Edge{node, slot};
    ++nodes_[node].references;
  }

  std::optional<Edge> gradient_edge(TensorId id) const {
    return id.value < gradient_functions_.size() ? gradient_functions_[id.value] : std::nullopt;
  }

  // Where a gradient of this tensor goes: its function, or the accumulation of a leaf.
  std::optional<Edge> edge_to(TensorId id) {
    if (!r_.info(id).requires_grad) return std::nullopt;
    std::optional<Edge> edge = gradient_edge(id);
    if (!edge) {
      const NodeIndex leaf =
          new_node({.kind = NodeKind::kAccumulate, .sequence = ~uint64_t{0}, .parameter = id});
      nodes_[leaf].outputs.push_back(r_.info(id));
      set_gradient_function(id, leaf, 0);
      edge = Edge{leaf, 0};
    }
    ++nodes_[edge->node].references;
    return edge;
  }

  void tensor_died(TensorId id) {
    if (id.value >= gradient_functions_.size() || !gradient_functions_[id.value]) return;
    const NodeIndex node = gradient_functions_[id.value]->node;
    gradient_functions_[id.value].reset();
    dereference(node);
  }

  void dereference(NodeIndex first) {
    std::vector<NodeIndex> pending{first};
    while (!pending.empty()) {
      const NodeIndex index = pending.back();
      pending.pop_back();
      if (--nodes_[index].references > 0) continue;
      release_saved(index);
      for (const auto& edge : nodes_[index].next)
        if (edge) pending.push_back(edge->node);
      nodes_[index].next.clear();
    }
  }

  void release_saved(NodeIndex index) {
    const With<Holder> holder(r_.holder, Holder::kSaved);
    std::vector<Saved> saved = std::move(nodes_[index].saved);
    nodes_[index].saved.clear();
    for (Saved& s : saved) s.value.reset();
    if (const std::optional<FrameIndex> frame = std::exchange(nodes_[index].frame, std::nullopt))
      release_frame(*frame);
  }

  void release_frame(FrameIndex index) {
    if (--frames_[index].references > 0) return;
    auto held = std::move(frames_[index].held);
    auto recomputed = std::move(frames_[index].recomputed);
    auto kept = std::move(frames_[index].kept);
    frames_[index] = Frame{.region = frames_[index].region};
  }

  // ---- checkpoints ----

  void hold_outside_tensors(Frame& frame) {
    const RegionRange range = ranges_[frame.region.value];
    std::vector<bool> seen(f_.tensors.size());
    for (TensorId t : f_.regions[frame.region.value].keywords) {
      seen[t.value] = true;
      frame.held.emplace_back(t, locals_[t.value]);
    }
    for (uint32_t i = range.begin; i < range.end; ++i) {
      const Statement& s = f_.statements[i];
      if (s.kind != StatementKind::kOp) continue;
      const Op& op = f_.ops[s.index];
      for (TensorId t : f_.outputs(op)) seen[t.value] = true;
      for (TensorId t : f_.inputs(op)) {
        if (seen[t.value] || !locals_[t.value]) continue;
        seen[t.value] = true;
        frame.held.emplace_back(t, locals_[t.value]);
      }
    }
  }

  // Fills the frame's slots: plays its statements again, until the last slot is there.
  void recompute(FrameIndex index) {
    frames_[index].is_recomputed = true;
    frames_[index].recomputed.resize(frames_[index].slots);
    std::vector<Value> outer = std::exchange(locals_, std::vector<Value>(f_.tensors.size()));
    for (const auto& [tensor, value] : frames_[index].held) locals_[tensor.value] = value;
    {
      const With<bool> grad(r_.is_grad_enabled, true);
      const With<bool> replaying(is_replaying_, true);
      const With<bool> mark(r_.is_recomputed, true);
      const With<std::optional<OpKind>> no_backward(r_.backward_of, std::nullopt);
      const With<std::optional<FrameIndex>> frame(replayed_frame_, index);
      const With<std::optional<FrameIndex>> none(current_frame_, std::nullopt);
      const RegionRange range = ranges_[frames_[index].region.value];
      uint32_t slot = 0;
      for (uint32_t i = range.begin; i < range.end && slot < frames_[index].slots; ++i)
        slot = replay_statement(i, index, slot);
    }
    locals_ = std::move(outer);
  }

  uint32_t replay_statement(uint32_t i, FrameIndex frame, uint32_t slot) {
    const Statement& s = f_.statements[i];
    if (s.kind != StatementKind::kOp) {
      play_statement(i);
      return slot;
    }
    const Op& op = f_.ops[s.index];
    gather_inputs(op);
    const uint32_t needed = needed_inputs(op);
    const bool makes_node = needed != 0 && has_gradient_output(op);
    const Saves saves = makes_node ? saves_of(op, needed) : Saves{};
    for (uint8_t k = 0; k < op.input_count; ++k)
      if (saves.inputs & (1U << k)) frames_[frame].recomputed[slot++] = r_.value(input_ids_[k]);
    if (slot == frames_[frame].slots) return slot;
    execute(i, op);
    for (uint8_t k = 0; k < op.output_count; ++k)
      if (saves.outputs & (1U << k)) frames_[frame].recomputed[slot++] = outputs_[k];
    for (size_t k = 0; k < outputs_.size(); ++k) locals_[f_.outputs(op)[k].value] = std::move(outputs_[k]);
    outputs_.clear();
    return slot;
  }

  uint32_t play_reentrant(RegionId id) {
    const RegionRange range = ranges_[id.value];
    const NodeIndex node =
        new_node({.kind = NodeKind::kCheckpoint, .sequence = next_sequence_++, .region = id});
    frames_.push_back({.region = id});
    const auto frame = static_cast<FrameIndex>(frames_.size() - 1);
    hold_outside_tensors(frames_[frame]);
    frames_[frame].references = 1;
    nodes_[node].frame = frame;
    for (TensorId t : f_.regions[id.value].arguments) add_edge(node, edge_to(locals_[t.value].id()));
    {
      const With<bool> grad(r_.is_grad_enabled, false);
      const With<bool> replaying(is_replaying_, true);
      play(range.begin, range.end + 1);
    }
    uint32_t slot = 0;
    for (TensorId t : f_.regions[id.value].results) {
      Value& result = locals_[t.value];
      nodes_[node].outputs.push_back(result.info());
      r_.program().tensors[result.id().value].requires_grad = true;
      set_gradient_function(result.id(), node, slot++);
    }
    return range.end;
  }

  // ---- backward ----

  struct Root {
    Edge edge;
    Value gradient;
  };
  struct Later {
    const std::vector<Node>* nodes;
    bool operator()(NodeIndex a, NodeIndex b) const { return (*nodes)[a].sequence < (*nodes)[b].sequence; }
  };
  using Ready = std::priority_queue<NodeIndex, std::vector<NodeIndex>, Later>;

  void run(std::vector<Root> roots) {
    std::vector<NodeIndex> root_nodes;
    for (const Root& root : roots) root_nodes.push_back(root.edge.node);
    count_dependencies(root_nodes);
    Ready ready(Later{&nodes_});
    for (Root& root : roots) {
      add_gradient(root.edge, std::move(root.gradient));
      if (nodes_[root.edge.node].waits_for == 0) ready.push(root.edge.node);
    }
    roots.clear();
    while (!ready.empty()) {
      const NodeIndex node = ready.top();
      ready.pop();
      evaluate(node, ready);
    }
  }

  void count_dependencies(const std::vector<NodeIndex>& roots) {
    std::vector<NodeIndex> pending;
    ++visit_;
    visited_.resize(nodes_.size());
    const auto visit = [&](NodeIndex n) {
      if (visited_[n] == visit_) return;
      visited_[n] = visit_;
      nodes_[n].waits_for = 0;
      pending.push_back(n);
    };
    for (NodeIndex n : roots) visit(n);
    while (!pending.empty()) {
      const NodeIndex n = pending.back();
      pending.pop_back();
      for (const auto& edge : nodes_[n].next) {
        if (!edge) continue;
        visit(edge->node);
        ++nodes_[edge->node].waits_for;
      }
    }
  }

  void add_gradient(const Edge& edge, Value gradient) {
    Node& node = nodes_[edge.node];
    if (node.gradients.empty()) node.gradients.resize(std::max<size_t>(node.outputs.size(), edge.slot + 1));
    if (!gradient) return;
    Value& old = node.gradients[edge.slot];
    if (!old) {
      old = std::move(gradient);
      return;
    }
    const TensorInfo& info = old.info();
    const bool owns = !info.is_view && info.layout.is_dense() && r_.tensor_references(old.id()) == 1 &&
                      r_.storage_references(info.storage) == 1;
    if (options_.sums_in_place && owns) {
      old = ops::add_(std::move(old), std::move(gradient));
    } else {
      Value sum = ops::add(old, gradient);
      gradient.reset();
      nodes_[edge.node].gradients[edge.slot] = std::move(sum);
    }
  }

  void evaluate(NodeIndex index, Ready& ready) {
    std::vector<Value> results = call(index);
    release_saved(index);
    const std::vector<std::optional<Edge>> next = nodes_[index].next;
    for (size_t i = 0; i < next.size(); ++i) {
      if (!next[i]) continue;
      add_gradient(*next[i], i < results.size() ? std::move(results[i]) : Value());
      if (--nodes_[next[i]->node].waits_for == 0) ready.push(next[i]->node);
    }
  }

  std::vector<Value> call(NodeIndex index) {
    for (RegionId unit : std::vector<RegionId>(nodes_[index].before)) hooks_->before_backward(unit);
    std::vector<Value> gradients = std::move(nodes_[index].gradients);
    nodes_[index].gradients.clear();
    gradients.resize(nodes_[index].outputs.size());
    switch (nodes_[index].kind) {
      case NodeKind::kOp:
        return call_op(index, gradients);
      case NodeKind::kAccumulate:
        accumulate(index, gradients);
        return {};
      case NodeKind::kCheckpoint:
        return call_reentrant(index, gradients);
      case NodeKind::kUnitBoundary:
        hooks_->after_backward(nodes_[index].region);
        return gradients;
    }
    return {};
  }

  void accumulate(NodeIndex index, std::vector<Value>& gradients) {
    if (!gradients[0]) return;
    const TensorId leaf = nodes_[index].parameter;
    if (const auto captured = captured_.find(leaf.value); captured != captured_.end()) {
      captured->second = std::move(gradients[0]);
      return;
    }
    sink_.accumulate(leaf, std::move(gradients[0]));
  }

  std::vector<Value> call_op(NodeIndex index, std::vector<Value>& gradients) {
    const Op& op = *nodes_[index].op;
    if (std::ranges::none_of(gradients, [](const Value& g) { return g.is_defined(); })) return {};
    const OpRow& row = op_row(op.kind);
    if (!row.backward) {
      if (!error_)
        error_ = Error{.message = fmt::format("the gradient of op {} ({}) has no rule", name_of(op.kind),
                                              f_.module_name(op.module)),
                       .is_internal = true};
      return {};
    }
    const With<ModuleId> module(r_.module, r_.program().module(f_.module_name(op.module)));
    const With<std::optional<OpKind>> of(r_.backward_of, op.kind);
    BackwardCall call(r_, f_, op, gradients);
    call.needed = nodes_[index].needed;
    unpack(index, call);
    row.backward(call);
    std::vector<Value> results = std::move(call.results);
    call.saved_inputs.clear();  // the function has returned: what it unpacked is gone
    call.saved_outputs.clear();
    validate(op, results);
    return results;
  }

  void unpack(NodeIndex index, BackwardCall& call) {
    call.saved_inputs.resize(call.op.input_count);
    call.saved_outputs.resize(call.op.output_count);
    const std::optional<FrameIndex> frame = nodes_[index].frame;
    if (frame && !frames_[*frame].is_recomputed && !nodes_[index].saved.empty()) recompute(*frame);
    for (const Saved& s : nodes_[index].saved) {
      Value& to = s.is_output ? call.saved_outputs[s.index] : call.saved_inputs[s.index];
      to = frame ? std::move(frames_[*frame].recomputed[s.slot]) : s.value;
    }
  }

  // Gradients take the shape and dtype of what they are a gradient of. Source: validate_outputs in
  // engine.cpp.
  void validate(const Op& op, std::vector<Value>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i]) continue;
      const TensorInfo& wanted = f_.tensor(f_.inputs(op)[i]);
      if (!results[i].layout().has_shape_of(wanted.layout))
        results[i] = ops::sum_to(std::move(results[i]), wanted.layout.shape());
      if (results[i].dtype() != wanted.dtype) results[i] = ops::cast(std::move(results[i]), wanted.dtype);
    }
  }

  std::vector<Value> call_reentrant(NodeIndex index, std::vector<Value>& gradients) {
    const RegionId region = nodes_[index].region;
    const FrameIndex frame = *nodes_[index].frame;
    const RegionRange range = ranges_[region.value];
    const std::vector<TensorId>& arguments = f_.regions[region.value].arguments;
    std::vector<Value> outer = std::exchange(locals_, std::vector<Value>(f_.tensors.size()));
    for (const auto& [tensor, value] : frames_[frame].held) locals_[tensor.value] = value;
    std::vector<Value> detached;
    for (TensorId t : arguments) {
      Value& local = locals_[t.value];
      const bool requires_grad = local.requires_grad();
      local = ops::detach(std::move(local));
      r_.program().tensors[local.id().value].requires_grad = requires_grad;
      captured_[local.id().value] = Value();
      detached.push_back(local);
    }
    std::vector<Root> roots;
    {
      const With<bool> grad(r_.is_grad_enabled, true);
      const With<bool> replaying(is_replaying_, true);
      const With<bool> mark(r_.is_recomputed, true);
      const With<std::optional<OpKind>> no_backward(r_.backward_of, std::nullopt);
      const With<std::optional<FrameIndex>> none(current_frame_, std::nullopt);
      play(range.begin, range.end + 1);
    }
    std::vector<Value> results;
    const std::vector<TensorId>& outputs = f_.regions[region.value].results;
    for (size_t k = 0; k < outputs.size(); ++k) {
      results.push_back(locals_[outputs[k].value]);
      if (const auto edge = gradient_edge(results.back().id()); edge && gradients[k])
        roots.push_back({*edge, gradients[k]});
    }
    locals_ = std::move(outer);
    run(std::move(roots));
    results.clear();
    std::vector<Value> argument_gradients;
    for (const Value& d : detached) {
      argument_gradients.push_back(std::move(captured_[d.id().value]));
      captured_.erase(d.id().value);
    }
    return argument_gradients;
  }

  Recorder& r_;
  const Program& f_;
  GradientSink& sink_;
  UnitHooks* hooks_;
  AutogradOptions options_;
  std::optional<Error>& error_;
  std::vector<Value> locals_;  // by forward tensor
  std::vector<RegionRange> ranges_;
  std::vector<Node> nodes_;
  std::vector<Frame> frames_;
  std::vector<std::optional<Edge>> gradient_functions_;  // by complete tensor
  std::unordered_map<uint32_t, Value> captured_;  // gradients of a reentrant checkpoint's detached arguments
  uint64_t next_sequence_ = 0;
  std::optional<FrameIndex> current_frame_;   // checkpoint whose forward is being played
  std::optional<FrameIndex> replayed_frame_;  // checkpoint that is being computed again
  bool is_replaying_ = false;
  std::vector<TensorId> input_ids_;
  std::vector<Value> outputs_;
  std::vector<uint32_t> visited_;
  uint32_t visit_ = 0;
};

Autograd::Autograd(Recorder& recorder, const Program& forward, GradientSink& sink, UnitHooks* hooks,
                   AutogradOptions options)
    : impl_(std::make_unique<Impl>(recorder, forward, sink, hooks, options, error_)) {}
Autograd::~Autograd() = default;

void Autograd::bind(TensorId forward_tensor, Value value) { impl_->bind(forward_tensor, std::move(value)); }
Value Autograd::forward(TensorId result) {
  impl_->play(true);
  return impl_->local(result);
}
void Autograd::forward_without_gradients() { impl_->play(false); }
void Autograd::backward(Value root) { impl_->backward(std::move(root)); }
void Autograd::release_locals() { impl_->release_locals(); }

}  // namespace plimsoll
