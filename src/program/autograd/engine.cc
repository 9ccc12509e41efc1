#include "program/autograd/engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/ops.h"

namespace plimsoll::autograd {

void Engine::run(std::vector<Root> roots) {
  count_dependencies(roots);
  Ready ready(Later{&graph_});
  for (Root& root : roots) {
    add_gradient(root.edge, std::move(root.gradient));
    if (graph_.node(root.edge.node).waits_for == 0) ready.push(root.edge.node);
  }
  roots.clear();
  while (!ready.empty()) {
    const NodeIndex node = ready.top();
    ready.pop();
    evaluate(node, ready);
  }
}

void Engine::count_dependencies(const std::vector<Root>& roots) {
  std::vector<NodeIndex> pending;
  ++visit_;
  visited_.resize(graph_.node_count());
  const auto visit = [&](NodeIndex n) {
    if (visited_[n] == visit_) return;
    visited_[n] = visit_;
    graph_.node(n).waits_for = 0;
    pending.push_back(n);
  };
  for (const Root& root : roots) visit(root.edge.node);
  while (!pending.empty()) {
    const NodeIndex n = pending.back();
    pending.pop_back();
    for (const auto& edge : graph_.node(n).next) {
      if (!edge) continue;
      visit(edge->node);
      ++graph_.node(edge->node).waits_for;
    }
  }
}

void Engine::add_gradient(const Edge& edge, Value gradient) {
  Node& node = graph_.node(edge.node);
  if (node.gradients.empty()) node.gradients.resize(std::max(node.output_count, edge.slot + 1));
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
    old = std::move(sum);
  }
}

void Engine::evaluate(NodeIndex index, Ready& ready) {
  std::vector<Value> results = call(index);
  if (graph_.node(index).kind == NodeKind::kCheckpoint)
    graph_.release_arguments(index, f_.regions[graph_.node(index).region.value].arguments);
  else
    graph_.release_saved(index);
  const std::vector<std::optional<Edge>> next = graph_.node(index).next;
  for (size_t i = 0; i < next.size(); ++i) {
    if (!next[i]) continue;
    add_gradient(*next[i], i < results.size() ? std::move(results[i]) : Value());
    if (--graph_.node(next[i]->node).waits_for == 0) ready.push(next[i]->node);
  }
}

std::vector<Value> Engine::call(NodeIndex index) {
  for (RegionId unit : std::vector<RegionId>(graph_.node(index).before)) hooks_->before_backward(unit);
  std::vector<Value> gradients = std::move(graph_.node(index).gradients);
  graph_.node(index).gradients.clear();
  gradients.resize(graph_.node(index).output_count);
  switch (graph_.node(index).kind) {
    case NodeKind::kOp:
      return call_op(index, gradients);
    case NodeKind::kAccumulate:
      accumulate(index, gradients);
      return {};
    case NodeKind::kCheckpoint:
      return call_reentrant(index, gradients);
    case NodeKind::kUnitBoundary:
      hooks_->after_backward(graph_.node(index).region);
      return gradients;
  }
  return {};
}

void Engine::accumulate(NodeIndex index, std::vector<Value>& gradients) {
  if (!gradients[0]) return;
  const TensorId leaf = graph_.node(index).parameter;
  if (const auto captured = captured_.find(leaf.value); captured != captured_.end()) {
    captured->second = std::move(gradients[0]);
    return;
  }
  Node& node = graph_.node(index);
  if (node.variable)
    accumulate_gradient(r_, leaf, std::move(gradients[0]), node.variable_gradient, r_.category);
  else
    sink_.accumulate(leaf, std::move(gradients[0]));
}

std::vector<Value> Engine::call_op(NodeIndex index, std::vector<Value>& gradients) {
  const Op& op = *graph_.node(index).op;
  if (std::ranges::none_of(gradients, [](const Value& g) { return g.is_defined(); })) return {};
  const OpRow& row = op_row(op.kind);
  if (!row.backward) {
    if (!error_)
      error_ = Error{.message = fmt::format("the gradient of op {} ({}) has no rule", name_of(op.kind),
                                            f_.module_name(op.module)),
                     .is_internal = true};
    return {};
  }
  const With<ModuleId> module(r_.module, player_.module_of(op.module));
  const With<std::optional<OpKind>> of(r_.backward_of, op.kind);
  BackwardCall call(r_, f_, op, gradients);
  call.needed = graph_.node(index).needed;
  unpack(index, call);
  call.clear = [&](bool is_output, size_t i) {
    (is_output ? call.saved_outputs : call.saved_inputs)[i].reset();
    const With<Holder> holder(r_.holder, Holder::kSaved);
    for (Saved& s : graph_.node(index).saved)
      if (s.is_output == is_output && s.index == i) s.value.reset();
  };
  row.backward(call);
  std::vector<Value> results = std::move(call.results);
  call.saved_inputs.clear();  // the function has returned: what it unpacked is gone
  call.saved_outputs.clear();
  if (row.is_python_function) gradients.clear();
  validate(op, results);
  return results;
}

void Engine::unpack(NodeIndex index, BackwardCall& call) {
  call.saved_inputs.resize(call.op.input_count);
  call.saved_outputs.resize(call.op.output_count);
  const std::optional<FrameIndex> frame = graph_.node(index).frame;
  const std::vector<Saved>& saved = graph_.node(index).saved;
  if (frame && !graph_.frame(*frame).is_recomputed && !saved.empty()) player_.recompute(*frame);
  for (const Saved& s : saved) {
    Value& to = s.is_output ? call.saved_outputs[s.index] : call.saved_inputs[s.index];
    // Not `?:`: whether that moves or copies here depends on the compiler.
    if (frame)
      to = std::move(graph_.frame(*frame).recomputed[s.slot]);
    else
      to = s.value;
  }
}

// Gradients take the shape and dtype of what they are a gradient of. Source: validate_outputs in engine.cpp.
void Engine::validate(const Op& op, std::vector<Value>& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i]) continue;
    const TensorInfo& wanted = f_.tensor(f_.inputs(op)[i]);
    if (!results[i].layout().has_shape_of(wanted.layout))
      results[i] = ops::sum_to(std::move(results[i]), wanted.layout.shape());
    if (results[i].dtype() != wanted.dtype) results[i] = ops::cast(std::move(results[i]), wanted.dtype);
    Storage& storage = r_.program().storages[results[i].info().storage.value];
    if (f_.storage(wanted.storage).category == Category::kLogits && storage.category == Category::kTemporary)
      storage.category = Category::kLogits;
  }
}

// CheckpointFunction.backward: the call again with a graph of its own, and a backward within the backward.
std::vector<Value> Engine::call_reentrant(NodeIndex index, std::vector<Value>& gradients) {
  // A function of Python gets zeros where no gradient arrived (set_materialize_grads).
  const std::vector<TensorId>& results = f_.regions[graph_.node(index).region.value].results;
  for (size_t k = 0; k < results.size(); ++k) {
    const TensorInfo& output = f_.tensor(results[k]);
    if (!gradients[k]) gradients[k] = ops::zeros(r_, Layout::contiguous(output.layout.shape()), output.dtype);
  }
  Player::SecondCall second = player_.play_again(*graph_.node(index).frame);
  for (const Value& argument : second.arguments) captured_[argument.id().value] = Value();
  std::vector<Root> roots;
  for (size_t k = 0; k < second.results.size(); ++k)
    if (const auto edge = graph_.gradient_edge(second.results[k].id()))
      roots.push_back({*edge, gradients[k]});
  run(std::move(roots));
  second.results.clear();
  std::vector<Value> argument_gradients;
  for (const Value& argument : second.arguments) {
    argument_gradients.push_back(std::move(captured_[argument.id().value]));
    captured_.erase(argument.id().value);
  }
  return argument_gradients;
}

}  // namespace plimsoll::autograd
