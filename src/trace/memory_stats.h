// What torch.cuda.memory_stats() or host_memory_stats() returned, or memory_summary() printed, at some
// moment: PyTorch's own counters by their flat names, such as "allocated_bytes.all.peak" (of the host
// "allocated_bytes.peak"). Plain data, nothing is derived. Source: torch/cuda/memory.py, memory_stats().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace plimsoll {

struct RecordedMemoryStats {
  bool is_host = false;  // of pinned host memory
  std::string source = "torch.cuda.memory_stats()";
  std::optional<int> device;                // where the source says it
  std::map<std::string, int64_t> counters;  // those that PyTorch is known to have
  std::map<std::string, int64_t> cut_by;    // how much more some may have been, where the source cuts digits
  std::vector<std::string> notes;           // keys that aren't

  std::optional<int64_t> counter(const std::string& name) const {
    const auto found = counters.find(name);
    return found == counters.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<Bytes> bytes(const std::string& name) const {
    const std::optional<int64_t> value = counter(name);
    return value ? std::optional(Bytes{*value}) : std::nullopt;
  }
};

}  // namespace plimsoll
