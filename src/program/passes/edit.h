// Changes of a complete program's statements, for passes.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <vector>

#include "program/program.h"

namespace plimsoll {

// Ops are numbered in the order in which they run (verify.h): what follows views reads them so. Those in no
// statement go.
void number_ops(Program& program);

// Statements to be put before others, or taken away, all at once.
//
//   Insertions insertions(program);
//   insertions.op(before, {.kind = OpKind::kCopyToHost}, {device}, {host});
//   insertions.apply();
//
// What is put before one statement keeps its order. Before a statement that begins a section means at the end
// of the section before. REQUIRES statements are not changed otherwise before apply().
class Insertions {
 public:
  explicit Insertions(Program& program) : p_(program) {}

  void op(uint32_t before, Op op, std::initializer_list<TensorId> inputs,
          std::initializer_list<TensorId> outputs);
  void free(uint32_t before, StorageId storage, Holder holder);
  void remove(uint32_t statement);  // a free, or an op that nothing depends on
  void apply();

 private:
  Program& p_;
  std::map<uint32_t, std::vector<Statement>> statements_;  // by the statement that they go before
  std::set<uint32_t> removed_;
};

}  // namespace plimsoll
