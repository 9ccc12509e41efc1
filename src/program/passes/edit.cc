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

void Insertions::remove(uint32_t statement) { removed_.insert(statement); }

void Insertions::apply() {
  if (statements_.empty() && removed_.empty()) return;
  std::vector<Statement> all;
  std::vector<uint32_t>
      place;  // by statement: of the first that now stands for it, behind what goes before it
  for (uint32_t i = 0; i <= p_.statements.size(); ++i) {
    if (const auto found = statements_.find(i); found != statements_.end())
      all.insert(all.end(), found->second.begin(), found->second.end());
    place.push_back(static_cast<uint32_t>(all.size()));
    if (i < p_.statements.size() && !removed_.contains(i)) all.push_back(p_.statements[i]);
  }
  for (Section& s : p_.sections) {
    s.first_statement = place[s.first_statement];
    s.last_statement = place[s.last_statement];
  }
  p_.statements = std::move(all);
  statements_.clear();
  removed_.clear();
  number_ops(p_);
}

}  // namespace plimsoll
