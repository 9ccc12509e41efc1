#include "base/text_table.h"

#include <algorithm>
#include <cassert>

#include "base/printable.h"

namespace plimsoll {
namespace {

// Columns a string takes on a terminal: UTF-8 code points (no wide characters are printed by us).
size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                    const std::vector<Align>& alignment, int indent) {
  std::string line(static_cast<size_t>(indent), ' ');
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(widths[i] - columns_of(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += alignment[i] == Align::kLeft ? cells[i] + padding : padding + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header, std::vector<Align> alignment)
    : header_(std::move(header)), alignment_(std::move(alignment)) {
  assert(header_.size() == alignment_.size());
}

void TextTable::add(std::vector<std::string> cells) {
  assert(!cells.empty() && cells.size() <= alignment_.size());
  cells.resize(alignment_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

void TextTable::add_rule() { rows_.emplace_back(); }

std::string TextTable::to_text(int indent) const {
  std::vector<size_t> widths(alignment_.size());
  for (size_t i = 0; i < widths.size(); ++i) widths[i] = columns_of(header_[i]);
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  size_t total = 2 * (widths.size() - 1);
  for (size_t width : widths) total += width;
  std::string text;
  const bool has_header =
      std::any_of(header_.begin(), header_.end(), [](const auto& h) { return !h.empty(); });
  if (has_header) text += line_of(header_, widths, alignment_, indent);
  for (const auto& row : rows_)
    text += row.empty() ? std::string(static_cast<size_t>(indent), ' ') + std::string(total, '-') + "\n"
                        : line_of(row, widths, alignment_, indent);
  return text;
}

}  // namespace plimsoll
