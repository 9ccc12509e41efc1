#include "report/snapshot_holders.h"

#include <algorithm>
#include <bit>
#include <map>

namespace plimsoll {
namespace {

constexpr const char* kNoStackText = "(no stack recorded)";

void add(CodeLineHolders& line, const LiveBlock& block, const StackMeaning* meaning) {
  ++line.count;
  line.total += block.bytes;
  if (block.bytes < line.largest) return;
  line.largest = block.bytes;
  if (meaning) line.op = meaning->op;
}

}  // namespace

SnapshotHolders holders_of(const AllocationTrace& trace, const std::vector<LiveBlock>& blocks) {
  const std::vector<StackMeaning> meanings = meanings_of(trace.stacks);
  std::map<std::pair<std::string, BlockRole>, CodeLineHolders> lines;
  std::map<int64_t, SizeClassHolders> sizes;
  SnapshotHolders holders;
  for (const LiveBlock& block : blocks) {
    const StackMeaning* const meaning = block.stack ? &meanings[*block.stack] : nullptr;
    const bool has_frame = meaning && meaning->shown_frame;
    const std::string where =
        has_frame ? frame_text(trace.stacks.frame(*meaning->shown_frame)) : kNoStackText;
    const BlockRole role = meaning ? meaning->role : BlockRole::kUnknown;
    CodeLineHolders& line = lines[{where, role}];
    line.where = where;
    line.role = role;
    add(line, block, meaning);
    const auto from = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(block.bytes.value)));
    SizeClassHolders& size = sizes[from];
    size.from = Bytes{from};
    size.below = Bytes{from} * 2;
    ++size.count;
    size.total += block.bytes;
    holders.by_role[static_cast<size_t>(role)] += block.bytes;
    holders.total += block.bytes;
  }
  for (auto& [key, line] : lines) holders.lines.push_back(std::move(line));
  std::ranges::stable_sort(holders.lines, std::greater(), &CodeLineHolders::total);
  for (const auto& [from, size] : sizes) holders.sizes.push_back(size);
  std::ranges::stable_sort(holders.sizes, std::greater(), &SizeClassHolders::total);
  return holders;
}

}  // namespace plimsoll
