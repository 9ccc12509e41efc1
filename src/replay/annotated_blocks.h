// Blocks grouped by what the program named: the record_function() ranges that ran when they were allocated,
// and the metadata that it attached to them.
//
// A block's annotation is the path of all ranges open at its alloc's time, outermost first ("ProfilerStep#3 >
// forward"); a range whose start the trace has lost is open from the beginning. Its metadata is that of its
// alloc (torch.cuda.memory._set_memory_metadata), and what later annotate events added until the moment.
// Ranges aren't told by thread. Source: external_annotations, user_metadata of
// torch/csrc/cuda/memory_snapshot.cpp.
//
//   const AnnotatedBlocks named = annotated_blocks(trace, analysis.at_peak, analysis.allocated.event);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "replay/analysis.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

// Of each block by its place in the list: its ranges and its metadata; empty: none.
struct BlockNames {
  std::vector<std::vector<std::string>> paths = {{}};  // of open ranges, each once; the innermost kMostNames
  std::vector<uint32_t> path_of;
  std::vector<std::string> metadata;

  static constexpr size_t kMostNames = 4;
};
BlockNames names_of_blocks(const AllocationTrace& trace, std::span<const LiveBlock> blocks,
                           std::optional<size_t> until);

struct NamedBlocks {
  std::string name;  // empty: of none
  int64_t count = 0;
  Bytes total;
};

// Each block once in both; largest first. Empty when nothing is named.
struct AnnotatedBlocks {
  std::vector<NamedBlocks> annotations, metadata;
};

// `until`: the event at whose end the blocks are alive.
AnnotatedBlocks annotated_blocks(const AllocationTrace& trace, std::span<const LiveBlock> blocks,
                                 std::optional<size_t> until);

}  // namespace plimsoll
