#include "program/autograd/player.h"

#include <cassert>

namespace plimsoll::autograd {

Player::Player(Recorder& recorder, const Program& forward, Graph& graph, UnitHooks* hooks)
    : r_(recorder),
      f_(forward),
      graph_(graph),
      hooks_(hooks),
      regions_(forward),
      locals_(forward.tensors.size()),
      modules_(forward.modules.size()) {}

ModuleId Player::module_of(ModuleId forward_module) {
  std::optional<ModuleId>& found = modules_[forward_module.value];
  if (!found) found = r_.program().module(f_.module_name(forward_module));
  return *found;
}

void Player::release_locals() {
  for (Value& local : locals_) local.reset();
}

void Player::play(bool with_graph) {
  const With<bool> mode(r_.is_grad_enabled, with_graph);
  play(played_, static_cast<uint32_t>(f_.statements.size()));
}

void Player::play_until(uint32_t statement) {
  const With<bool> mode(r_.is_grad_enabled, true);
  play(played_, statement);
  played_ = statement;
}

void Player::play(uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; ++i) i = play_statement(i);
}

uint32_t Player::play_statement(uint32_t i) {
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

// ---- regions ----

// A unit's hooks stay outside a checkpoint of the same call: they don't run again with it.
uint32_t Player::begin_region(uint32_t i, RegionId id) {
  const Region& region = f_.regions[id.value];
  if (is_replaying_) return i;
  if (is_unit(id)) enter_unit(id);
  if (!r_.is_grad_enabled || region.checkpoint == Checkpoint::kNone) return i;
  if (region.checkpoint == Checkpoint::kReentrant) {
    const uint32_t end = play_reentrant(id);
    end_region(id);
    return end;
  }
  current_frame_ = graph_.new_frame(id);
  alternations_.clear();
  hold_outside_tensors(*current_frame_);
  return i;
}

void Player::end_region(RegionId id) {
  if (is_replaying_) return;
  if (current_frame_ && graph_.frame(*current_frame_).region == id) {
    graph_.release_frame(*current_frame_);  // a call of which nothing is kept holds nothing
    current_frame_.reset();
  }
  if (is_unit(id)) leave_unit(id);
}

void Player::enter_unit(RegionId id) {
  hooks_->before_forward(id);
  if (!r_.is_grad_enabled) return;
  // The arguments pass through a function whose backward tells that the unit is done.
  std::vector<TensorId> arguments;
  for (TensorId t : f_.regions[id.value].arguments)
    if (locals_[t.value] && locals_[t.value].requires_grad()) arguments.push_back(t);
  if (arguments.empty()) return;
  const NodeIndex node = graph_.new_node({.kind = NodeKind::kUnitBoundary, .region = id});
  for (uint32_t k = 0; k < arguments.size(); ++k) {
    Value& local = locals_[arguments[k].value];
    graph_.add_edge(node, graph_.edge_to(local.id()));
    ++graph_.node(node).output_count;
    Value argument = local;
    Value passed = r_.emit_view(OpKind::kBoundary, argument, Layout(local.layout()));
    graph_.set_gradient_function(passed.id(), node, k);
    local = std::move(passed);
  }
}

void Player::leave_unit(RegionId id) {
  hooks_->after_forward(id);
  if (!r_.is_grad_enabled) return;
  for (TensorId t : f_.regions[id.value].results)
    if (const Value& v = locals_[t.value]; v && v.requires_grad())
      if (const auto edge = graph_.gradient_edge(v.id())) graph_.node(edge->node).before.push_back(id);
}

// ---- ops ----

void Player::play_op(uint32_t statement, const Op& op) {
  gather_inputs(op);
  Value* const cached = cast_of_leaf(op);
  if (cached && *cached) {
    locals_[f_.outputs(op)[0].value] = *cached;
    return;
  }
  const InputSet needed = needed_inputs(op);
  const bool makes_node = !needed.is_empty() && has_gradient_output(op);
  std::optional<NodeIndex> node;
  if (makes_node) node = make_node(op, needed);
  execute(statement, op);
  if (node) finish_node(*node, op);
  if (cached) *cached = outputs_[0];
  keep_outputs(op);
}

void Player::gather_inputs(const Op& op) {
  input_ids_.clear();
  for (TensorId t : f_.inputs(op)) {
    assert(locals_[t.value] && "an op reads a tensor that was dropped");
    input_ids_.push_back(locals_[t.value].id());
  }
}

void Player::keep_outputs(const Op& op) {
  for (size_t k = 0; k < outputs_.size(); ++k) locals_[f_.outputs(op)[k].value] = std::move(outputs_[k]);
  outputs_.clear();
}

InputSet Player::needed_inputs(const Op& op) const {
  InputSet needed;
  if (!r_.is_grad_enabled || !op_row(op.kind).is_differentiable) return needed;
  for (size_t i = 0; i < input_ids_.size(); ++i) {
    const TensorInfo& info = r_.info(input_ids_[i]);
    if (info.requires_grad && is_floating(info.dtype)) needed.add(i);
  }
  return needed;
}

bool Player::has_gradient_output(const Op& op) const {
  for (TensorId t : f_.outputs(op))
    if (f_.tensor(t).requires_grad) return true;
  return false;
}

NodeIndex Player::make_node(const Op& op, const InputSet& needed) {
  const NodeIndex index = graph_.new_node({.kind = NodeKind::kOp, .op = &op, .needed = needed});
  for (size_t i = 0; i < input_ids_.size(); ++i)
    graph_.add_edge(index, needed.contains(i) ? graph_.edge_to(input_ids_[i]) : std::nullopt);
  const Saves saves = saves_of(op, needed);
  for (uint32_t i = 0; i < op.input_count; ++i)
    if (saves.keeps_input(i)) graph_.save(index, false, i, r_.value(input_ids_[i]), current_frame_);
  return index;
}

void Player::finish_node(NodeIndex index, const Op& op) {
  const Saves saves = saves_of(op, graph_.node(index).needed);
  graph_.node(index).output_count = op.output_count;
  for (uint32_t k = 0; k < op.output_count; ++k) {
    if (outputs_[k].requires_grad()) graph_.set_gradient_function(outputs_[k].id(), index, k);
    if (saves.keeps_output(k)) graph_.save(index, true, k, outputs_[k], current_frame_);
  }
}

Saves Player::saves_of(const Op& op, const InputSet& needed) const {
  const OpRow& row = op_row(op.kind);
  return row.saves ? row.saves(f_, op, needed) : Saves{};
}

void Player::execute(uint32_t statement, const Op& op) {
  const With<ModuleId> module(r_.module, module_of(op.module));
  if (take_kept_result(statement)) return;
  if (op.kind == OpKind::kCloneForBackward && !r_.is_grad_enabled) {  // autograd doesn't make it then
    outputs_.push_back(r_.value(input_ids_[0]));
    return;
  }
  r_.replay(f_, op, input_ids_, outputs_);
  if (op.kind == OpKind::kEfficientAttention && !r_.is_grad_enabled) leave_out_log_sum_exp();
  if (current_frame_ && keeps_result(statement, op))
    graph_.frame(*current_frame_).kept[statement].assign(outputs_.begin(), outputs_.end());
}

// The kernel makes its log-sum-exp, its second result, only for a backward.
void Player::leave_out_log_sum_exp() {
  TensorInfo& info = r_.program().tensors[outputs_[1].id().value];
  info.layout = Layout::contiguous({info.layout.size(0), info.layout.size(1), 0});
  r_.program().storages[info.storage.value].bytes = Bytes{0};
}

}  // namespace plimsoll::autograd
