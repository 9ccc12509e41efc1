#include "validation/csv.h"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace plimsoll {
namespace {

struct Row {
  std::vector<std::string> cells;
  int line = 1;
};

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Result<std::vector<Row>> split(const std::string& file) {
    for (; at_ < text_.size(); ++at_) in_quotes_ ? take_quoted(text_[at_]) : take(text_[at_]);
    if (in_quotes_)
      return fail({.position = {.file = file, .line = line_},
                   .message = "a quoted cell does not end",
                   .expected = "a closing \""});
    end_row();
    return std::move(rows_);
  }

 private:
  void take_quoted(char c) {
    const bool is_doubled = c == '"' && at_ + 1 < text_.size() && text_[at_ + 1] == '"';
    if (c == '"' && !is_doubled) {
      in_quotes_ = false;
      return;
    }
    if (is_doubled) ++at_;
    if (c == '\n') ++line_;
    cell_ += c;
  }

  void take(char c) {
    if (c == '\n') {
      end_row();
      row_.line = ++line_;
      return;
    }
    if (c == '\r') return;
    has_any_ = true;
    if (c == '"')
      in_quotes_ = true;
    else if (c == ',')
      row_.cells.push_back(std::exchange(cell_, {}));
    else
      cell_ += c;
  }

  // Empty lines are no rows.
  void end_row() {
    if (!std::exchange(has_any_, false)) return;
    row_.cells.push_back(std::exchange(cell_, {}));
    rows_.push_back(std::exchange(row_, {}));
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool in_quotes_ = false;
  bool has_any_ = false;  // of the row
  std::string cell_;
  Row row_;
  std::vector<Row> rows_;
};

}  // namespace

namespace {

// Spreadsheets put it before UTF-8.
std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

Result<void> check_columns(const std::vector<std::string>& columns, const std::string& file) {
  const auto refuse = [&](std::string message) {
    return fail({.position = {.file = file, .line = 1},
                 .message = std::move(message),
                 .expected = "a line of column names, each once, with commas between them"});
  };
  if (columns.size() == 1 && columns[0].find_first_of(";\t") != std::string::npos)
    return refuse("the columns have semicolons or tabs between them");
  std::set<std::string_view> seen;
  for (const std::string& column : columns)
    if (!seen.insert(column).second) return refuse(fmt::format("column \"{}\" is there twice", column));
  return {};
}

}  // namespace

Result<CsvTable> CsvTable::parse(std::string_view text, const std::string& file) {
  PLIMSOLL_TRY(rows, Splitter(without_byte_order_mark(text)).split(file));
  if (rows.empty())
    return fail(
        {.position = {.file = file}, .message = "the file is empty", .expected = "a line of column names"});
  PLIMSOLL_CHECK(check_columns(rows[0].cells, file));
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
  static const std::string none;
  const auto found = columns_.find(column);
  return found == columns_.end() ? none : cells_[row][found->second];
}

}  // namespace plimsoll
