// Plays the statements of a forward program as eager PyTorch runs the modelling code: locals come and go, ops
// leave nodes in the graph, and checkpoints play their statements again when the backward asks.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "program/autograd.h"
#include "program/autograd/graph.h"
#include "program/autograd/needed_results.h"
#include "program/autograd/region_index.h"
#include "program/op_table.h"

namespace plimsoll::autograd {

class Player {
 public:
  Player(Recorder& recorder, const Program& forward, Graph& graph, UnitHooks* hooks);

  void bind(TensorId forward_tensor, Value value) { locals_[forward_tensor.value] = std::move(value); }
  Value local(TensorId id) const { return locals_[id.value]; }
  void release_locals();
  // The module of the complete program that stands for one of the forward program.
  ModuleId module_of(ModuleId forward_module);

  void play(bool with_graph);           // all statements that weren't played yet
  void play_until(uint32_t statement);  // with a graph

  // ---- checkpoints (player_checkpoints.cc) ----
  // Fills a non-reentrant frame's slots: plays its statements again, until the last slot is there.
  void recompute(FrameIndex frame);
  // A reentrant checkpoint's call, played again on detached arguments with a graph of its own.
  struct SecondCall {
    std::vector<Value> arguments;  // detached, as the region's arguments
    std::vector<Value> results;    // as the region's results
  };
  SecondCall play_again(FrameIndex frame);

 private:
  void play(uint32_t first, uint32_t last);
  uint32_t play_statement(uint32_t i);  // returns the last statement it played
  uint32_t begin_region(uint32_t i, RegionId id);
  void end_region(RegionId id);
  bool is_unit(RegionId id) const { return hooks_ && f_.regions[id.value].is_unit; }
  void enter_unit(RegionId id);
  void leave_unit(RegionId id);

  void play_op(uint32_t statement, const Op& op);
  void gather_inputs(const Op& op);
  Value* cast_of_leaf(const Op& op);  // where the cast that `op` is would be cached; nullptr: nowhere
  void keep_outputs(const Op& op);
  InputSet needed_inputs(const Op& op) const;
  bool has_gradient_output(const Op& op) const;
  NodeIndex make_node(const Op& op, const InputSet& needed);
  void finish_node(NodeIndex index, const Op& op);
  Saves saves_of(const Op& op, const InputSet& needed) const;
  void leave_out_log_sum_exp();
  void execute(uint32_t statement, const Op& op);

  bool keeps_result(uint32_t statement, const Op& op);
  bool take_kept_result(uint32_t statement);
  void hold_outside_tensors(FrameIndex frame);
  std::vector<Value> set_locals_aside(const CallTensors& call, const Frame& frame);
  void restore_locals(const CallTensors& call, std::vector<Value> outer);
  uint32_t replay_statement(uint32_t i, FrameIndex frame, uint32_t slot);
  uint32_t play_reentrant(RegionId id);

  Recorder& r_;
  const Program& f_;
  Graph& graph_;
  UnitHooks* hooks_;
  RegionIndex regions_;
  std::vector<Value> locals_;                     // by forward tensor
  std::vector<std::optional<ModuleId>> modules_;  // by forward module
  std::optional<FrameIndex> current_frame_;       // checkpoint whose forward is being played
  std::optional<FrameIndex> replayed_frame_;      // checkpoint that is being computed again
  std::map<OpKind, int64_t> alternations_;        // of alternately kept kinds, in the call of current_frame_
  std::map<uint32_t, std::vector<bool>> needed_results_;  // by region: of its statements
  bool is_replaying_ = false;
  // While a reentrant call is played again: by detached argument, its copy in half precision.
  std::unordered_map<uint32_t, Value> casts_of_leaves_;
  uint32_t played_ = 0;              // statements of the forward pass
  std::vector<TensorId> input_ids_;  // of the op being played
  std::vector<Value> outputs_;
};

}  // namespace plimsoll::autograd
