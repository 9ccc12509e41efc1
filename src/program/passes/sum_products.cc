#include "program/passes/sum_products.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <vector>

#include "program/passes/edit.h"

namespace plimsoll {
namespace {

bool is_view(OpKind kind) { return class_of(kind) == OpClass::kView; }

class SumProducts {
 public:
  explicit SumProducts(Program& program)
      : p_(program),
        uses_(program.storages.size()),
        place_(program.statements.size()),
        is_removed_(program.statements.size()) {}

  void run() {
    for (uint32_t i = 0; i < p_.statements.size(); ++i) {
      place_[i] = uint64_t{i} * 2 + 1;
      note_uses(i);
    }
    for (const Section& s : p_.sections)
      for (uint32_t i = s.first_statement; i < s.last_statement; ++i)
        if (const auto sum = find_sum(i, s.last_statement)) fuse(*sum);
    order_statements();
    number_ops(p_);
  }

 private:
  // Statement indices: the product, its addition; every use of the product's storage but the first.
  struct Sum {
    uint32_t product = 0, addition = 0;
    StorageId into;
    std::vector<uint32_t> uses;
  };

  void note_uses(uint32_t statement) {
    const Statement& s = p_.statements[statement];
    const auto note = [&](StorageId storage) {
      std::vector<uint32_t>& uses = uses_[storage.value];
      if (uses.empty() || uses.back() != statement) uses.push_back(statement);
    };
    if (s.kind == StatementKind::kFree) note(StorageId{s.index});
    if (s.kind != StatementKind::kOp) return;
    for (TensorId t : p_.inputs(p_.ops[s.index])) note(p_.tensor(t).storage);
    for (TensorId t : p_.outputs(p_.ops[s.index])) note(p_.tensor(t).storage);
  }

  const Op* op_of(uint32_t statement) const {
    const Statement& s = p_.statements[statement];
    return s.kind == StatementKind::kOp ? &p_.ops[s.index] : nullptr;
  }

  // A product in fp32 whose storage is looked at, added once and freed, all before `end`.
  std::optional<Sum> find_sum(uint32_t statement, uint32_t end) const {
    const Op* const product = op_of(statement);
    if (!product || product->kind != OpKind::kMm) return std::nullopt;
    const TensorId made = p_.outputs(*product)[0];
    const StorageId storage = p_.tensor(made).storage;
    const std::vector<uint32_t>& uses = uses_[storage.value];
    if (uses.front() != statement || uses.back() >= end) return std::nullopt;
    Sum sum{.product = statement, .uses = {uses.begin() + 1, uses.end()}};
    for (uint32_t use : sum.uses) {
      const Op* const op = op_of(use);
      if (!op || is_view(op->kind)) continue;
      if (op->kind != OpKind::kAddInPlace || sum.addition != 0 || !adds(*op, made)) return std::nullopt;
      sum.addition = use;
      sum.into = p_.tensor(p_.inputs(*op)[0]).storage;
    }
    if (sum.addition == 0 || !can_be_written_early(sum)) return std::nullopt;
    return sum;
  }

  // The op adds the whole of `made` in its own order of elements to a tensor that a product can be written
  // to.
  bool adds(const Op& op, TensorId made) const {
    const TensorInfo& into = p_.tensor(p_.inputs(op)[0]);
    const TensorInfo& added = p_.tensor(p_.inputs(op)[1]);
    const TensorInfo& product = p_.tensor(made);
    return added.storage == product.storage && into.storage != product.storage &&
           added.layout == product.layout && into.layout == product.layout && into.dtype == DType::kFloat32 &&
           added.dtype == DType::kFloat32;
  }

  // Between product and addition the target is made, or other parts of it are added to, at most.
  bool can_be_written_early(const Sum& sum) const {
    return std::ranges::all_of(uses_[sum.into.value], [&](uint32_t use) {
      if (use <= sum.product || use >= sum.addition) return true;
      const Op* const op = op_of(use);
      if (!op) return false;
      const bool adds = op->kind == OpKind::kAddInPlace || op->kind == OpKind::kAddmmOut;
      return makes(*op) || (adds && p_.tensor(p_.inputs(*op)[0]).storage == sum.into);
    });
  }
  static bool makes(const Op& op) { return op.kind == OpKind::kZeros || is_view(op.kind); }

  void fuse(const Sum& sum) {
    for (uint32_t use : uses_[sum.into.value])
      if (use > sum.product && use < sum.addition && makes(*op_of(use)))
        place_[use] = std::min(place_[use], uint64_t{sum.product} * 2);
    const Op addition = *op_of(sum.addition);
    const TensorId into = p_.inputs(addition)[0];
    Op& product = p_.ops[p_.statements[sum.product].index];
    const std::array<TensorId, 3> inputs{into, p_.inputs(product)[0], p_.inputs(product)[1]};
    product.kind = OpKind::kAddmmOut;
    product.first_input = static_cast<uint32_t>(p_.operands.size());
    product.input_count = inputs.size();
    p_.operands.insert(p_.operands.end(), inputs.begin(), inputs.end());
    product.first_output = addition.first_output;
    for (uint32_t use : sum.uses) is_removed_[use] = true;
  }

  // Places lie within the section that a statement was in.
  void order_statements() {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < p_.statements.size(); ++i)
      if (!is_removed_[i]) order.push_back(i);
    std::ranges::stable_sort(order, {}, [&](uint32_t i) { return place_[i]; });
    std::vector<uint32_t> kept_before(p_.statements.size() + 1);
    for (size_t i = 0; i < p_.statements.size(); ++i)
      kept_before[i + 1] = kept_before[i] + (is_removed_[i] ? 0 : 1);
    std::vector<Statement> ordered;
    for (uint32_t i : order) ordered.push_back(p_.statements[i]);
    p_.statements = std::move(ordered);
    for (Section& s : p_.sections) {
      s.first_statement = kept_before[s.first_statement];
      s.last_statement = kept_before[s.last_statement];
    }
  }

  Program& p_;
  std::vector<std::vector<uint32_t>> uses_;  // by storage: statements that name it
  std::vector<uint64_t> place_;              // by statement: where it goes
  std::vector<bool> is_removed_;             // by statement
};

}  // namespace

Result<void> sum_products(Program& program) {
  assert(program.is_complete);
  SumProducts(program).run();
  return {};
}

}  // namespace plimsoll
