// Runs the nodes of a graph backward. A node runs when all its gradients have arrived; among ready ones the
// latest made runs first. Source: torch/csrc/autograd/engine.cpp, input_buffer.cpp.
#pragma once

#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "program/autograd.h"
#include "program/autograd/graph.h"
#include "program/autograd/player.h"
#include "program/op_table.h"

namespace plimsoll::autograd {

class Engine {
 public:
  struct Root {
    Edge edge;
    Value gradient;
  };

  Engine(Recorder& recorder, const Program& forward, Graph& graph, Player& player, GradientSink& sink,
         UnitHooks* hooks, AutogradOptions options)
      : r_(recorder),
        f_(forward),
        graph_(graph),
        player_(player),
        sink_(sink),
        hooks_(hooks),
        options_(options) {}

  void run(std::vector<Root> roots);
  const std::optional<Error>& error() const { return error_; }

 private:
  struct Later {
    Graph* graph;
    bool operator()(NodeIndex a, NodeIndex b) const {
      return graph->node(a).sequence < graph->node(b).sequence;
    }
  };
  using Ready = std::priority_queue<NodeIndex, std::vector<NodeIndex>, Later>;

  void count_dependencies(const std::vector<Root>& roots);
  void add_gradient(const Edge& edge, Value gradient);
  void evaluate(NodeIndex index, Ready& ready);
  std::vector<Value> call(NodeIndex index);
  std::vector<Value> call_op(NodeIndex index, std::vector<Value>& gradients);
  std::vector<Value> call_reentrant(NodeIndex index, std::vector<Value>& gradients);
  void accumulate(NodeIndex index, std::vector<Value>& gradients);
  void unpack(NodeIndex index, BackwardCall& call);
  void validate(const Op& op, std::vector<Value>& results);

  Recorder& r_;
  const Program& f_;
  Graph& graph_;
  Player& player_;
  GradientSink& sink_;
  UnitHooks* hooks_;
  AutogradOptions options_;
  std::optional<Error> error_;
  std::unordered_map<uint32_t, Value> captured_;  // gradients of a reentrant checkpoint's detached arguments
  std::vector<uint32_t> visited_;
  uint32_t visit_ = 0;
};

}  // namespace plimsoll::autograd
