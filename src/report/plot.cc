#include "report/plot.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"

namespace plimsoll {

std::string plot_columns(std::span<const int64_t> columns, int rows) {
  int64_t top = 1;
  for (int64_t column : columns) top = std::max(top, column);
  std::string text;
  for (int row = rows; row >= 1; --row) {
    const bool has_label = row == rows || row == (rows + 1) / 2 || row == 1;
    const double part = static_cast<double>(row) / rows;
    const Bytes level{static_cast<int64_t>(static_cast<double>(top) * part)};
    std::string line = fmt::format("{:>{}} |", has_label ? to_gib_text(level) : "", kPlotIndent - 2);
    const double threshold = static_cast<double>(top) * (part - 0.5 / rows);
    for (int64_t column : columns) line += static_cast<double>(column) >= threshold ? '#' : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace plimsoll
