#include "simulator/exact_trace.h"

#include <utility>
#include <vector>

#include "trace/separate_blocks.h"
#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

constexpr Nanoseconds kOpTime{1000};
constexpr uint64_t kFirstAddress = uint64_t{1} << 32, kAlignment = 64;

class Walk {
 public:
  explicit Walk(const Program& program) : p_(program), address_of_(program.storages.size()) {}

  AllocationTrace run(std::span<const PhaseStep> steps) {
    for (const PhaseStep& step : steps) {
      blocks_.begin(step.phase, now_);
      const Section& section = p_.sections[step.section];
      for (uint32_t i = section.first_statement; i < section.last_statement; ++i) play(p_.statements[i]);
    }
    return blocks_.take(now_);
  }

 private:
  void play(const Statement& s) {
    if (s.kind == StatementKind::kFree && address_of_[s.index] != 0)
      blocks_.free(std::exchange(address_of_[s.index], 0), now_);
    if (s.kind != StatementKind::kOp) return;
    const Op& op = p_.ops[s.index];
    now_ += kOpTime;
    if (shares_input_storage(op.kind)) return;
    for (TensorId t : p_.outputs(op)) allocate(op, p_.tensor(t).storage);
  }

  void allocate(const Op& op, StorageId id) {
    const Storage& storage = p_.storage(id);
    if (storage.tier != Tier::kGpu || storage.bytes.value == 0 || address_of_[id.value] != 0) return;
    address_of_[id.value] = next_;
    next_ += (static_cast<uint64_t>(storage.bytes.value) + kAlignment - 1) / kAlignment * kAlignment;
    const StackId stack =
        blocks_.stacks().add({simulated_frame(aten_name_of(op.kind), p_.module_name(op.module)),
                              category_frame(name_of(storage.category))});
    blocks_.alloc(address_of_[id.value], storage.bytes, stack, now_);
  }

  const Program& p_;
  std::vector<uint64_t> address_of_;  // by storage; 0: not live
  uint64_t next_ = kFirstAddress;     // addresses are given once
  SeparateBlocks blocks_;
  Nanoseconds now_;
};

}  // namespace

AllocationTrace exact_trace(const Program& program, std::span<const PhaseStep> steps) {
  return Walk(program).run(steps);
}

}  // namespace plimsoll
