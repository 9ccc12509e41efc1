#include "program/autograd/needed_results.h"

#include "program/op_table.h"

namespace plimsoll::autograd {
namespace {

InputSet inputs_with_gradient(const Program& f, const Op& op) {
  InputSet set;
  if (!op_row(op.kind).is_differentiable) return set;
  for (size_t i = 0; i < op.input_count; ++i) {
    const TensorInfo& info = f.tensor(f.inputs(op)[i]);
    if (info.requires_grad && is_floating(info.dtype)) set.add(i);
  }
  return set;
}

void want_what_is_saved(const Program& f, const Op& op, std::vector<bool>& wanted) {
  const InputSet needed = inputs_with_gradient(f, op);
  const OpRow& row = op_row(op.kind);
  if (needed.is_empty() || !row.saves) return;
  const Saves saves = row.saves(f, op, needed);
  for (uint32_t i = 0; i < op.input_count; ++i)
    if (saves.keeps_input(i)) wanted[f.inputs(op)[i].value] = true;
  for (uint32_t k = 0; k < op.output_count; ++k)
    if (saves.keeps_output(k)) wanted[f.outputs(op)[k].value] = true;
}

}  // namespace

std::vector<bool> needed_results(const Program& forward, const CallRange& range) {
  std::vector<bool> wanted(forward.tensors.size());
  for (uint32_t i = range.begin; i < range.end; ++i)
    if (const Statement& s = forward.statements[i]; s.kind == StatementKind::kOp)
      want_what_is_saved(forward, forward.ops[s.index], wanted);
  std::vector<bool> needed(range.end - range.begin);
  for (uint32_t i = range.end; i-- > range.begin;) {
    const Statement& s = forward.statements[i];
    if (s.kind != StatementKind::kOp) continue;
    const Op& op = forward.ops[s.index];
    bool is_needed = false;
    for (TensorId t : forward.outputs(op)) is_needed = is_needed || wanted[t.value];
    if (!is_needed) continue;
    needed[i - range.begin] = true;
    for (TensorId t : forward.inputs(op)) wanted[t.value] = true;
  }
  return needed;
}

}  // namespace plimsoll::autograd
