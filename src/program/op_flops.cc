#include "program/op_flops.h"

namespace plimsoll {
namespace {

// The left factor ends with the dim that is summed over.
Flops product(const Program& program, const Op& op, size_t left) {
  const Layout& layout = program.tensor(program.inputs(op)[left]).layout;
  return Flops{2 * program.tensor(program.outputs(op)[0]).layout.elements() * layout.size(-1)};
}

// Two products, of queries and keys and of their weights and values. q [b, heads, s, d], k [b, kv heads,
// keys, d]; v has k's width.
Flops attention(const Program& program, const Op& op) {
  const Layout& queries = program.tensor(program.inputs(op)[0]).layout;
  return Flops{4 * queries.elements()} * program.tensor(program.inputs(op)[1]).layout.size(2);
}

}  // namespace

Flops op_flops(const Program& program, const Op& op) {
  switch (op.kind) {
    case OpKind::kMm:
    case OpKind::kBmm:
      return product(program, op, 0);
    case OpKind::kAddmm:  // the addend comes first
    case OpKind::kBaddbmm:
    case OpKind::kAddmmOut:
      return product(program, op, 1);
    case OpKind::kCpuFlashAttention:
    case OpKind::kFlashAttention:
    case OpKind::kEfficientAttention:
    case OpKind::kCudnnAttention:
      return attention(program, op);
    default:
      return {};
  }
}

Flops section_flops(const Program& program, uint32_t section) {
  Flops sum;
  const Section& s = program.sections[section];
  for (uint32_t i = s.first_statement; i < s.last_statement; ++i) {
    const Statement& statement = program.statements[i];
    if (statement.kind != StatementKind::kOp || program.ops[statement.index].is_recomputed) continue;
    sum += op_flops(program, program.ops[statement.index]);
  }
  return sum;
}

}  // namespace plimsoll
