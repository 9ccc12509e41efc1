#include "report/memory_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/block.h"

namespace plimsoll {
namespace {

struct Levels {
  std::vector<int64_t> live;       // after each event of the phases
  std::vector<size_t> starts;      // of each phase, as a position in `live`
  std::vector<std::string> names;  // of each phase
};

Levels levels_of(const EstimateRun& run, uint32_t first, uint32_t last) {
  Levels levels;
  int64_t now = run.timeline.phases[first].live_start.value;
  uint32_t phase = first;
  const auto begin_phase = [&](uint32_t p) {
    levels.starts.push_back(levels.live.size());
    levels.names.push_back(run.timeline.phases[p].phase);
    levels.live.push_back(now);
  };
  begin_phase(first);
  for (const MemoryEvent& e : run.timeline.events) {
    if (e.phase < first || e.phase > last) continue;
    while (phase < e.phase) begin_phase(++phase);
    const Storage& storage = run.program.storage(e.storage);
    if (storage.tier != Tier::kGpu) continue;
    const int64_t bytes = round_to_block(storage.bytes).value;
    now += e.is_alloc ? bytes : -bytes;
    levels.live.push_back(now);
  }
  while (phase < last) begin_phase(++phase);
  return levels;
}

size_t column_of(size_t event, size_t events, size_t columns) {
  return event * columns / std::max<size_t>(1, events);
}

std::vector<int64_t> column_peaks(const Levels& levels, size_t columns) {
  std::vector<int64_t> peaks(columns, -1);
  for (size_t i = 0; i < levels.live.size(); ++i) {
    int64_t& peak = peaks[column_of(i, levels.live.size(), columns)];
    peak = std::max(peak, levels.live[i]);
  }
  for (size_t c = 0; c < columns; ++c)  // fewer events than columns: a value holds until the next
    if (peaks[c] < 0) peaks[c] = c == 0 ? 0 : peaks[c - 1];
  return peaks;
}

// The phases' names where they begin, when there is room.
std::string axis_text(const Levels& levels, size_t columns, size_t indent) {
  std::string axis(indent + columns, ' ');
  for (size_t p = 0; p < levels.starts.size(); ++p) {
    const size_t begin = column_of(levels.starts[p], levels.live.size(), columns);
    const size_t end = p + 1 == levels.starts.size()
                           ? columns
                           : column_of(levels.starts[p + 1], levels.live.size(), columns);
    if (end - begin < levels.names[p].size() + 1) continue;
    axis.replace(indent + begin, levels.names[p].size() + 1, "|" + levels.names[p]);
  }
  axis.erase(axis.find_last_not_of(' ') + 1);
  return axis + "\n";
}

}  // namespace

std::string memory_curve(const EstimateRun& run, uint32_t first_phase, uint32_t last_phase, PlotSize size) {
  const auto columns = static_cast<size_t>(size.columns);
  const Levels levels = levels_of(run, first_phase, last_phase);
  const std::vector<int64_t> peaks = column_peaks(levels, columns);
  return plot_columns(peaks, size.rows) + axis_text(levels, columns, kPlotIndent);
}

}  // namespace plimsoll
