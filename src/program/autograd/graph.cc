#include "program/autograd/graph.h"

#include <algorithm>

namespace plimsoll::autograd {

NodeIndex Graph::new_node(Node node) {
  // A leaf's accumulation runs at once: it stands above everything.
  node.sequence = node.kind == NodeKind::kAccumulate ? ~uint64_t{0} : next_sequence_++;
  nodes_.push_back(std::move(node));
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

FrameIndex Graph::new_frame(RegionId region) {
  frames_.push_back({.region = region, .references = 1});
  return static_cast<FrameIndex>(frames_.size() - 1);
}

void Graph::set_gradient_function(TensorId id, NodeIndex node, uint32_t slot) {
  if (gradient_functions_.size() <= id.value) gradient_functions_.resize(id.value + 1 + id.value / 2);
  gradient_functions_[id.value] = Edge{node, slot};
  ++nodes_[node].references;
}

std::optional<Edge> Graph::edge_to(TensorId id) {
  if (!r_.info(id).requires_grad) return std::nullopt;
  std::optional<Edge> edge = gradient_edge(id);
  if (!edge) edge = Edge{new_leaf(id), 0};
  ++nodes_[edge->node].references;
  return edge;
}

// A leaf that an op made (requires_grad_ on its result) lives as long as something leads to it.
NodeIndex Graph::new_leaf(TensorId id) {
  const NodeIndex leaf = new_node({.kind = NodeKind::kAccumulate, .parameter = id});
  nodes_[leaf].output_count = 1;
  set_gradient_function(id, leaf, 0);
  if (id.value >= first_made_) {
    nodes_[leaf].variable = r_.value(id);
    --nodes_[leaf].references;
  }
  return leaf;
}

void Graph::release_variable(NodeIndex index) {
  if (!nodes_[index].variable) return;
  gradient_functions_[nodes_[index].parameter.value].reset();
  const Value gradient = std::move(nodes_[index].variable_gradient);
  const Value variable = std::move(nodes_[index].variable);
}

void Graph::save(NodeIndex index, bool is_output, uint32_t position, Value value,
                 std::optional<FrameIndex> frame) {
  Saved saved{.is_output = is_output, .index = position};
  if (frame) {
    saved.slot = frames_[*frame].slots++;
    frames_[*frame].is_slot_wanted.push_back(true);
    if (!nodes_[index].frame) {
      nodes_[index].frame = frame;
      ++frames_[*frame].references;
    }
  } else {
    saved.value = std::move(value);
  }
  nodes_[index].saved.push_back(std::move(saved));
}

void Graph::tensor_died(TensorId id) {
  if (id.value >= gradient_functions_.size() || !gradient_functions_[id.value]) return;
  const NodeIndex node = gradient_functions_[id.value]->node;
  gradient_functions_[id.value].reset();
  dereference(node);
}

void Graph::dereference(NodeIndex first) {
  if (--nodes_[first].references > 0) return;
  std::vector<NodeIndex> pending;
  const auto release = [&](NodeIndex index) {
    release_saved(index);
    release_variable(index);
    for (const auto& edge : nodes_[index].next)
      if (edge) pending.push_back(edge->node);
    nodes_[index].next.clear();
  };
  release(first);
  while (!pending.empty()) {
    const NodeIndex index = pending.back();
    pending.pop_back();
    if (--nodes_[index].references == 0) release(index);
  }
}

void Graph::release_saved(NodeIndex index) {
  const With<Holder> holder(r_.holder, Holder::kSaved);
  std::vector<Saved> saved = std::move(nodes_[index].saved);
  nodes_[index].saved.clear();
  for (Saved& s : saved) s.value.reset();
  const std::optional<FrameIndex> frame = std::exchange(nodes_[index].frame, std::nullopt);
  if (!frame) return;
  for (const Saved& s : saved) release_slot(frames_[*frame], s.slot);
  release_frame(*frame);
}

void Graph::release_arguments(NodeIndex index, std::span<const TensorId> arguments) {
  const With<Holder> holder(r_.holder, Holder::kSaved);
  for (auto& [tensor, value] : frames_[*nodes_[index].frame].held)
    if (std::ranges::find(arguments, tensor) != arguments.end()) value.reset();
}

// Nobody will look into the slot: a recomputation doesn't fill it.
void Graph::release_slot(Frame& frame, uint32_t slot) {
  if (slot < frame.is_slot_wanted.size()) frame.is_slot_wanted[slot] = false;
  if (slot < frame.recomputed.size()) frame.recomputed[slot].reset();
}

void Graph::release_frame(FrameIndex index) {
  if (--frames_[index].references > 0) return;
  auto held = std::move(frames_[index].held);
  auto recomputed = std::move(frames_[index].recomputed);
  auto kept = std::move(frames_[index].kept);
  frames_[index] = Frame{.region = frames_[index].region};
}

}  // namespace plimsoll::autograd
