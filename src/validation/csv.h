// Comma-separated values as RFC 4180 has them: quoted cells, doubled quotes, line breaks in quotes. First
// line: names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace plimsoll {

class CsvTable {
 public:
  // Errors: no header, a row with another number of cells than the header, an unfinished quote.
  static Result<CsvTable> parse(std::string_view text, const std::string& file);

  size_t rows() const { return cells_.size(); }
  bool has_column(const std::string& name) const { return columns_.contains(name); }
  // Empty when there is no such column.
  const std::string& at(size_t row, const std::string& column) const;

 private:
  std::unordered_map<std::string, size_t> columns_;
  std::vector<std::vector<std::string>> cells_;
};

}  // namespace plimsoll
