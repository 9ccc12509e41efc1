#include "report/snapshot_holders.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "report/holders.h"

namespace plimsoll {
namespace {

// What the blocks are for: by their stacks, and by when they live.
class Roles {
 public:
  Roles(const AllocationTrace& trace, const std::vector<LiveBlock>& blocks)
      : trace_(trace), meanings_(meanings_of(trace.stacks)), without_stack_(role_without_stack(trace)) {
    count_other_allocations();
    for (const LiveBlock& block : blocks) {
      const BlockRole role = of_stack(block);
      if (role == BlockRole::kOptimizerState || role == BlockRole::kBackward)
        sizes_of_parameters_.insert(block.requested.value);
    }
  }

  const StackMeaning* meaning(const LiveBlock& block) const {
    return block.stack ? &meanings_[*block.stack] : nullptr;
  }
  BlockRole of(const LiveBlock& block) const {
    const BlockRole role = of_stack(block);
    const bool is_old = !block.event && !block.freed && role == BlockRole::kUnknown;
    return is_old && sizes_of_parameters_.contains(block.requested.value) ? BlockRole::kParameter : role;
  }

 private:
  BlockRole of_stack(const LiveBlock& block) const {
    if (!block.stack) return block.event ? without_stack_ : BlockRole::kUnknown;
    const StackMeaning& meaning = meanings_[*block.stack];
    const BlockRole role = block.is_stack_of_free ? meaning.freed_role : meaning.role;
    if (role != BlockRole::kOptimizer) return role;
    const size_t from = block.event.value_or(0), until = block.freed.value_or(trace_.events.size());
    const bool outlives_step = !block.freed || others_before_[until] > others_before_[from];
    return outlives_step ? BlockRole::kOptimizerState : BlockRole::kOptimizerTemporary;
  }
  // Allocations before each event that are known to be no optimizer's.
  void count_other_allocations() {
    others_before_.reserve(trace_.events.size() + 1);
    uint32_t others = 0;
    for (const AllocationEvent& event : trace_.events) {
      others_before_.push_back(others);
      if (event.action == AllocationAction::kAlloc && event.stack &&
          meanings_[*event.stack].role != BlockRole::kOptimizer)
        ++others;
    }
    others_before_.push_back(others);
  }

  const AllocationTrace& trace_;
  std::vector<StackMeaning> meanings_;
  BlockRole without_stack_;
  std::vector<uint32_t> others_before_;
  std::set<int64_t> sizes_of_parameters_;
};

struct Line {
  CodeLineHolders holders;
  std::set<std::string> ops;

  // What made a block, its free doesn't tell.
  void add(const LiveBlock& block, const StackMeaning* meaning) {
    const std::string op = meaning && !block.is_stack_of_free ? meaning->op : std::string();
    ++holders.count;
    holders.total += block.bytes;
    if (!op.empty()) ops.insert(op);
    holders.is_freed_by = block.is_stack_of_free && meaning && meaning->shown_frame;
    if (block.bytes < holders.largest) return;
    holders.largest = block.bytes;
    holders.op = op;
  }
  CodeLineHolders take() {
    if (holders.op.empty() && !ops.empty()) holders.op = *ops.begin();
    holders.other_ops = ops.empty() ? 0 : static_cast<int64_t>(ops.size()) - 1;
    return std::move(holders);
  }
};

// The line of code, or the module of a simulated op with its layer's number left open.
std::string where_of(const AllocationTrace& trace, const LiveBlock& block, const StackMeaning* meaning) {
  if (!meaning || !meaning->shown_frame)
    return block.event ? "(no stack recorded)" : "(from before the trace)";
  const StackFrame& frame = trace.stacks.frame(*meaning->shown_frame);
  if (block.is_stack_of_free) return "freed by " + frame_text(frame);
  if (!meaning->is_simulated) return frame_text(frame);
  return frame.filename.empty() ? "(no module)" : fold_path(frame.filename).pattern;
}

}  // namespace

SnapshotHolders holders_of(const AllocationTrace& trace, const std::vector<LiveBlock>& blocks) {
  const Roles roles(trace, blocks);
  std::map<std::pair<std::string, BlockRole>, Line> lines;
  std::map<int64_t, SizeClassHolders> sizes;
  SnapshotHolders holders;
  for (const LiveBlock& block : blocks) {
    const StackMeaning* const meaning = roles.meaning(block);
    const BlockRole role = roles.of(block);
    holders.roles.push_back(role);
    const std::string where = where_of(trace, block, meaning);
    holders.is_simulated |= meaning && meaning->is_simulated;
    Line& line = lines[{where, role}];
    line.holders.where = where;
    line.holders.role = role;
    line.add(block, meaning);
    const auto from = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(block.bytes.value)));
    SizeClassHolders& size = sizes[from];
    size.from = Bytes{from};
    size.below = Bytes{from} * 2;
    ++size.count;
    size.total += block.bytes;
    holders.by_role[static_cast<size_t>(role)] += block.bytes;
    holders.total += block.bytes;
  }
  for (auto& [key, line] : lines) holders.lines.push_back(line.take());
  std::ranges::stable_sort(holders.lines, std::greater(), &CodeLineHolders::total);
  for (const auto& [from, size] : sizes) holders.sizes.push_back(size);
  std::ranges::stable_sort(holders.sizes, std::greater(), &SizeClassHolders::total);
  return holders;
}

}  // namespace plimsoll
