// The graph that a forward pass leaves behind: one node per op whose result wants a gradient, with what its
// backward needs and where the gradients of its inputs go. Nodes live as long as something leads to them: a
// tensor whose gradient function they are, or another node. The last reference gone, a node lets go of what
// it saved.
//
// Source: torch/csrc/autograd/function.h, saved_variable.cpp; torch/utils/checkpoint.py (frames).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "program/op_table.h"

namespace plimsoll::autograd {

using NodeIndex = uint32_t;
using FrameIndex = uint32_t;

struct Edge {
  NodeIndex node = 0;
  uint32_t slot = 0;  // which of the node's gradients
};

enum class NodeKind : uint8_t { kOp, kAccumulate, kCheckpoint, kUnitBoundary };

struct Saved {
  bool is_output = false;
  uint32_t index = 0;  // of the op's inputs or outputs
  Value value;         // held here, or ...
  uint32_t slot = 0;   // ... found again in the frame's slot
};

struct Node {
  NodeKind kind = NodeKind::kOp;
  const Op* op = nullptr;
  uint64_t sequence = 0;
  uint32_t references = 0;                // tensors whose gradient function it is, and nodes that lead to it
  InputSet needed;                        // kOp: inputs that want a gradient
  std::vector<std::optional<Edge>> next;  // one per input
  uint32_t output_count = 0;              // and so many gradients come
  std::vector<Saved> saved;
  std::optional<FrameIndex> frame;
  std::vector<RegionId> before;  // units whose results these are
  RegionId region;               // kCheckpoint, kUnitBoundary
  TensorId parameter;            // kAccumulate
  Value variable;                // kAccumulate of a tensor that an op made: it holds the tensor
  Value variable_gradient;       // and that one its gradient
  // While a backward runs:
  std::vector<Value> gradients;
  uint32_t waits_for = 0;
};

// One call of a checkpoint. A non-reentrant one's saved tensors are slots, filled when the first is wanted.
struct Frame {
  RegionId region;
  std::vector<std::pair<TensorId, Value>> held;  // tensors from outside that the recomputation reads
  uint32_t slots = 0;
  std::vector<bool> is_slot_wanted;  // false: its node let go of it
  uint32_t references = 0;           // nodes with slots, and the call itself while it is being played
  bool is_recomputed = false;
  std::vector<Value> recomputed;
  // By statement: results that a selective policy keeps.
  std::unordered_map<uint32_t, std::vector<Value>> kept;
};

class Graph {
 public:
  explicit Graph(Recorder& recorder)
      : r_(recorder), first_made_(static_cast<uint32_t>(recorder.program().tensors.size())) {}

  void reserve(size_t nodes) { nodes_.reserve(nodes); }
  Node& node(NodeIndex index) { return nodes_[index]; }
  size_t node_count() const { return nodes_.size(); }
  Frame& frame(FrameIndex index) { return frames_[index]; }

  NodeIndex new_node(Node node);  // its place among the others' sequence is now
  FrameIndex new_frame(RegionId region);
  void add_edge(NodeIndex from, std::optional<Edge> to) { nodes_[from].next.push_back(to); }
  void set_gradient_function(TensorId id, NodeIndex node, uint32_t slot);
  std::optional<Edge> gradient_edge(TensorId id) const {
    return id.value < gradient_functions_.size() ? gradient_functions_[id.value] : std::nullopt;
  }
  // Where a gradient of this tensor goes: its function, or the accumulation of a leaf. Counts a reference.
  std::optional<Edge> edge_to(TensorId id);
  // Keeps a value for the node's backward; within a frame only its slot.
  void save(NodeIndex index, bool is_output, uint32_t position, Value value, std::optional<FrameIndex> frame);

  void tensor_died(TensorId id);
  void release_saved(NodeIndex index);
  void release_frame(FrameIndex index);  // one reference less
  // Of a reentrant checkpoint: the arguments it has saved as tensors. What it was given by keyword hangs on
  // its Python context, which lives as long as the node: until the root of the graph is let go.
  void release_arguments(NodeIndex index, std::span<const TensorId> arguments);

 private:
  NodeIndex new_leaf(TensorId id);
  void release_variable(NodeIndex index);
  void dereference(NodeIndex first);
  static void release_slot(Frame& frame, uint32_t slot);

  Recorder& r_;
  uint32_t first_made_;  // tensors from here on are made while the graph exists; the others are parameters
  std::vector<Node> nodes_;
  std::vector<Frame> frames_;
  std::vector<std::optional<Edge>> gradient_functions_;  // by complete tensor
  uint64_t next_sequence_ = 0;
};

}  // namespace plimsoll::autograd
