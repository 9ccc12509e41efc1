#include <algorithm>

#include "program/autograd/player.h"
#include "program/ops.h"

namespace plimsoll::autograd {

// What the call reads from outside: given by keyword, or found in the scope of the function.
void Player::hold_outside_tensors(FrameIndex index) {
  Frame& frame = graph_.frame(index);
  for (TensorId t : regions_.tensors(frame.region).outside)
    if (locals_[t.value]) frame.held.emplace_back(t, locals_[t.value]);
}

// The call's own locals begin as what the checkpoint held; returns the outer ones.
std::vector<Value> Player::set_locals_aside(const CallTensors& call, const Frame& frame) {
  std::vector<Value> outer;
  outer.reserve(call.touched.size());
  for (TensorId t : call.touched) outer.push_back(std::move(locals_[t.value]));
  for (const auto& [tensor, value] : frame.held) locals_[tensor.value] = value;
  return outer;
}

void Player::restore_locals(const CallTensors& call, std::vector<Value> outer) {
  for (TensorId t : call.touched) locals_[t.value].reset();
  for (size_t i = 0; i < outer.size(); ++i) locals_[call.touched[i].value] = std::move(outer[i]);
}

// Asked once for each op of a call, in their order.
bool Player::keeps_result(uint32_t statement, const Op& op) {
  const RegionId id = graph_.frame(*current_frame_).region;
  const Region& region = f_.regions[id.value];
  if (region.checkpoint != Checkpoint::kSelective) return false;
  const auto alternating = std::ranges::find(region.alternately_kept, op.kind);
  const bool is_of_kind = alternating == region.alternately_kept.end()
                              ? std::ranges::find(region.kept, op.kind) != region.kept.end()
                              : ++alternations_[op.kind] % 2 == 1;
  if (!is_of_kind || !region.keeps_only_needed) return is_of_kind;
  const CallRange& range = regions_.range(id);
  std::vector<bool>& needed = needed_results_[id.value];
  if (needed.empty()) needed = needed_results(f_, range);
  return needed[statement - range.begin];
}

bool Player::take_kept_result(uint32_t statement) {
  if (!replayed_frame_) return false;
  auto& kept = graph_.frame(*replayed_frame_).kept;
  const auto found = kept.find(statement);
  if (found == kept.end()) return false;
  for (Value& v : found->second) outputs_.push_back(std::move(v));
  kept.erase(found);
  return true;
}

void Player::recompute(FrameIndex index) {
  Frame& frame = graph_.frame(index);
  frame.is_recomputed = true;
  frame.recomputed.resize(frame.slots);
  const CallTensors& tensors = regions_.tensors(frame.region);
  std::vector<Value> outer = set_locals_aside(tensors, frame);
  {
    const With<bool> grad(r_.is_grad_enabled, true);
    const With<bool> replaying(is_replaying_, true);
    const With<bool> mark(r_.is_recomputed, true);
    const With<std::optional<OpKind>> no_backward(r_.backward_of, std::nullopt);
    const With<std::optional<FrameIndex>> replayed(replayed_frame_, index);
    const With<std::optional<FrameIndex>> none(current_frame_, std::nullopt);
    const CallRange range = regions_.range(frame.region);
    uint32_t slot = 0;
    const bool is_whole = f_.regions[frame.region.value].is_recomputed_whole;
    for (uint32_t i = range.begin; i < range.end && (is_whole || slot < frame.slots); ++i)
      slot = replay_statement(i, index, slot);
  }
  restore_locals(tensors, std::move(outer));
}

// No graph is made: what the ops would save is what the slots want, in the same order.
uint32_t Player::replay_statement(uint32_t i, FrameIndex index, uint32_t slot) {
  const Statement& s = f_.statements[i];
  if (s.kind != StatementKind::kOp) {
    play_statement(i);
    return slot;
  }
  Frame& frame = graph_.frame(index);
  const Op& op = f_.ops[s.index];
  gather_inputs(op);
  const InputSet needed = needed_inputs(op);
  const bool makes_node = !needed.is_empty() && has_gradient_output(op);
  const Saves saves = makes_node ? saves_of(op, needed) : Saves{};
  const auto fill = [&](const Value& value) {
    if (frame.is_slot_wanted[slot]) frame.recomputed[slot] = value;
    ++slot;
  };
  for (uint32_t k = 0; k < op.input_count; ++k)
    if (saves.keeps_input(k)) fill(r_.value(input_ids_[k]));
  if (slot == frame.slots && !f_.regions[frame.region.value].is_recomputed_whole) return slot;  // early stop
  execute(i, op);
  for (uint32_t k = 0; k < op.output_count; ++k)
    if (saves.keeps_output(k)) fill(outputs_[k]);
  keep_outputs(op);
  return slot;
}

uint32_t Player::play_reentrant(RegionId id) {
  const CallRange range = regions_.range(id);
  const NodeIndex node = graph_.new_node({.kind = NodeKind::kCheckpoint, .region = id});
  const FrameIndex frame = graph_.new_frame(id);
  hold_outside_tensors(frame);
  graph_.node(node).frame = frame;
  for (TensorId t : f_.regions[id.value].arguments)
    graph_.add_edge(node, graph_.edge_to(locals_[t.value].id()));
  {
    const With<bool> grad(r_.is_grad_enabled, false);
    const With<bool> replaying(is_replaying_, true);
    play(range.begin, range.end + 1);
  }
  uint32_t slot = 0;
  for (TensorId t : f_.regions[id.value].results) {
    Value& result = locals_[t.value];
    ++graph_.node(node).output_count;
    r_.program().tensors[result.id().value].requires_grad = true;
    graph_.set_gradient_function(result.id(), node, slot++);
  }
  return range.end;
}

// Autocast keeps the low-precision copy of an fp32 leaf that requires a gradient until it ends. Recipes see
// to that for parameters; the detached arguments of a reentrant call have become leaves too. Source:
// cached_cast in aten/src/ATen/autocast_mode.cpp.
Value* Player::cast_of_leaf(const Op& op) {
  if (op.kind != OpKind::kCast || casts_of_leaves_.empty()) return nullptr;
  if (!is_half(f_.tensor(f_.outputs(op)[0]).dtype)) return nullptr;
  const auto found = casts_of_leaves_.find(input_ids_[0].value);
  return found == casts_of_leaves_.end() ? nullptr : &found->second;
}

Player::SecondCall Player::play_again(FrameIndex index) {
  const RegionId region = graph_.frame(index).region;
  const CallRange range = regions_.range(region);
  const CallTensors& tensors = regions_.tensors(region);
  std::vector<Value> outer = set_locals_aside(tensors, graph_.frame(index));
  SecondCall call;
  for (TensorId t : f_.regions[region.value].arguments) {
    Value& local = locals_[t.value];
    const bool requires_grad = local.requires_grad();
    local = ops::detach(std::move(local));
    r_.program().tensors[local.id().value].requires_grad = requires_grad;
    if (requires_grad && local.dtype() == DType::kFloat32) casts_of_leaves_.try_emplace(local.id().value);
    call.arguments.push_back(local);
  }
  {
    const With<bool> grad(r_.is_grad_enabled, true);
    const With<bool> replaying(is_replaying_, true);
    const With<bool> mark(r_.is_recomputed, true);
    const With<std::optional<OpKind>> no_backward(r_.backward_of, std::nullopt);
    const With<std::optional<FrameIndex>> none(current_frame_, std::nullopt);
    play(range.begin, range.end + 1);
  }
  casts_of_leaves_.clear();
  for (TensorId t : f_.regions[region.value].results) call.results.push_back(locals_[t.value]);
  restore_locals(tensors, std::move(outer));
  return call;
}

}  // namespace plimsoll::autograd
