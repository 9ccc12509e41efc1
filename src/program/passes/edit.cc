#include "program/passes/edit.h"

#include <algorithm>

namespace plimsoll {

void number_ops(Program& p) {
  std::vector<Op> ordered;
  ordered.reserve(p.ops.size());
  for (Statement& s : p.statements) {
    if (s.kind != StatementKind::kOp) continue;
    ordered.push_back(p.ops[s.index]);
    s.index = static_cast<uint32_t>(ordered.size() - 1);
  }
  p.ops = std::move(ordered);
}

void Insertions::op(uint32_t before, Op op, std::initializer_list<TensorId> inputs,
                    std::initializer_list<TensorId> outputs) {
  op.first_input = static_cast<uint32_t>(p_.operands.size());
  op.input_count = static_cast<uint32_t>(inputs.size());
  p_.operands.insert(p_.operands.end(), inputs);
  op.first_output = static_cast<uint32_t>(p_.operands.size());
  op.output_count = static_cast<uint32_t>(outputs.size());
  p_.operands.insert(p_.operands.end(), outputs);
  p_.ops.push_back(op);
  statements_[before].push_back(
      {.kind = StatementKind::kOp, .index = static_cast<uint32_t>(p_.ops.size() - 1)});
}

void Insertions::free(uint32_t before, StorageId storage, Holder holder) {
  statements_[before].push_back({.kind = StatementKind::kFree, .holder = holder, .index = storage.value});
}

void Insertions::apply() {
  if (statements_.empty()) return;
  std::vector<Statement> all;
  for (uint32_t i = 0; i <= p_.statements.size(); ++i) {
    if (const auto found = statements_.find(i); found != statements_.end())
      all.insert(all.end(), found->second.begin(), found->second.end());
    if (i < p_.statements.size()) all.push_back(p_.statements[i]);
  }
  const auto added_before = [&](uint32_t statement, bool including) {
    uint32_t count = 0;
    for (const auto& [before, added] : statements_)
      if (before < statement || (including && before == statement))
        count += static_cast<uint32_t>(added.size());
    return count;
  };
  for (Section& s : p_.sections) {
    s.first_statement += added_before(s.first_statement, true);
    s.last_statement += added_before(s.last_statement, true);
  }
  p_.statements = std::move(all);
  statements_.clear();
  number_ops(p_);
}

}  // namespace plimsoll
