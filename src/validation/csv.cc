#include "validation/csv.h"

#include <fmt/format.h>

namespace plimsoll {
namespace {

struct Row {
  std::vector<std::string> cells;
  int line = 1;
};

Result<std::vector<Row>> split(std::string_view text, const std::string& file) {
  std::vector<Row> rows;
  Row row;
  std::string cell;
  bool in_quotes = false, has_any = false;
  int line = 1;
  const auto end_cell = [&] { row.cells.push_back(std::exchange(cell, {})); };
  const auto end_row = [&] {
    if (has_any || !row.cells.empty()) {
      end_cell();
      rows.push_back(std::exchange(row, {}));
    }
    row.line = line + 1;
    has_any = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_quotes) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        cell += '"';
        ++i;
      } else if (c == '"') {
        in_quotes = false;
      } else {
        cell += c;
        if (c == '\n') ++line;
      }
    } else if (c == '"') {
      in_quotes = has_any = true;
    } else if (c == ',') {
      end_cell();
      has_any = true;
    } else if (c == '\n') {
      end_row();
      ++line;
    } else if (c != '\r') {
      cell += c;
      has_any = true;
    }
  }
  if (in_quotes)
    return fail({.position = {.file = file, .line = line},
                 .message = "a quoted cell does not end",
                 .expected = "a closing \""});
  end_row();
  return rows;
}

}  // namespace

Result<CsvTable> CsvTable::parse(std::string_view text, const std::string& file) {
  PLIMSOLL_TRY(rows, split(text, file));
  if (rows.empty())
    return fail(
        {.position = {.file = file}, .message = "the file is empty", .expected = "a line of column names"});
  CsvTable table;
  for (size_t i = 0; i < rows[0].cells.size(); ++i) table.columns_.emplace(rows[0].cells[i], i);
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].cells.size() != rows[0].cells.size())
      return fail({.position = {.file = file, .line = rows[i].line},
                   .message = fmt::format("the row has {} cells", rows[i].cells.size()),
                   .expected = fmt::format("{}, as the first line has", rows[0].cells.size())});
    table.cells_.push_back(std::move(rows[i].cells));
  }
  return table;
}

const std::string& CsvTable::at(size_t row, const std::string& column) const {
  static const std::string kNone;
  const auto found = columns_.find(column);
  return found == columns_.end() ? kNone : cells_[row][found->second];
}

}  // namespace plimsoll
