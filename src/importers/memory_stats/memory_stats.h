// Reads torch.cuda.memory_stats() or torch.cuda.host_memory_stats() as JSON: the flat form, or that of
// memory_stats_as_nested_dict().
//
//   json.dump(torch.cuda.memory_stats(), open("stats.json", "w"))
//   PLIMSOLL_TRY(stats, read_memory_stats(text, "stats.json"));
//   stats.bytes("allocated_bytes.all.peak");
//
// Errors: what is no JSON object, a counter that is no integer or negative, no counter that is known; with
// line and column. Keys that PyTorch isn't known to have are noted, the first kMostUnknownKeys by name.
// Source: torch/cuda/memory.py, memory_stats() and host_memory_stats(), of PyTorch 2.13; the host's of 2.6
// to 2.8 had other names (segment, reserved_bytes). Does not read: the host's times (host_alloc_time,
// host_free_time) and counts by size (bucket_...).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "trace/memory_stats.h"

namespace plimsoll {

inline constexpr size_t kMostUnknownKeys = 10;

bool sniff_memory_stats(std::string_view first_bytes);
Result<RecordedMemoryStats> read_memory_stats(std::string_view text, const std::string& file);

}  // namespace plimsoll
