// Reads the tables of torch.cuda.memory_summary() out of a text, as programs print them when memory runs out:
//
//   |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
//   | Allocated memory      |   5624 MiB |   5673 MiB |  22536 MiB |  16911 MiB |
//   |       from large pool |   5543 MiB |   5589 MiB |   8875 MiB |   3332 MiB |
//
// Lines may have something before the first bar, such as a rank. Of several tables of one device the last
// counts; the others are noted. The table cuts sizes down to whole units (until 2.0 "MB" for 2^20) and counts
// to thousands. Errors: a row without its four figures; with its line. Source: torch/cuda/memory.py,
// memory_summary(), of PyTorch 1.4 to 2.13.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "trace/memory_stats.h"

namespace plimsoll {

bool sniff_memory_summary(std::string_view text);
// By device, in the order in which they first stand in the text.
Result<std::vector<RecordedMemoryStats>> read_memory_summaries(std::string_view text,
                                                               const std::string& file);

}  // namespace plimsoll
