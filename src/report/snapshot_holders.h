// The blocks that were alive at a snapshot's peak, grouped for a reader: by the line of the user's code that
// asked for them, by what they seem to be for, by size.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "replay/analysis.h"
#include "replay/stack_roles.h"

namespace plimsoll {

struct CodeLineHolders {
  std::string where;         // "cs336_basics/model.py:54 forward"; "freed by ..."; "(no stack)"
  bool is_freed_by = false;  // who asked for them isn't in the trace
  BlockRole role = BlockRole::kUnknown;
  std::string op;         // of the largest block: "aten::mm"
  int64_t other_ops = 0;  // how many more made blocks of this line
  int64_t count = 0;
  Bytes total, largest;
};

struct SizeClassHolders {
  Bytes from, below;  // a power of two and the next
  int64_t count = 0;
  Bytes total;
};

struct SnapshotHolders {
  std::vector<CodeLineHolders> lines;  // largest first
  std::vector<SizeClassHolders> sizes;
  std::array<Bytes, kNumBlockRoles> by_role{};
  std::vector<BlockRole> roles;  // by block
  Bytes total;
  bool is_simulated = false;  // roles are the simulation's own, not guessed
};

SnapshotHolders holders_of(const AllocationTrace& trace, const std::vector<LiveBlock>& blocks);

}  // namespace plimsoll
