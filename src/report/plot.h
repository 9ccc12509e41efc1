// Bytes over columns as a plot of text; the highest value fills all rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

struct PlotSize {
  int columns = 96;
  int rows = 14;
};

inline constexpr size_t kPlotIndent = 13;  // of what stands below the first column

// One line for each row, labelled in GiB at the top, in the middle and at the bottom.
std::string plot_columns(std::span<const int64_t> columns, int rows);

}  // namespace plimsoll
