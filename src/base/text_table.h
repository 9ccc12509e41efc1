// A table of text for a terminal: columns are as wide as their widest cell, numbers stand right. Cells are
// made printable (base/printable.h).
//
//   TextTable table({"phase", "peak"}, {Align::kLeft, Align::kRight});
//   table.add({"forward", "12.31 GiB"});
//   std::cout << table.to_text();
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

enum class Align { kLeft, kRight };

class TextTable {
 public:
  // REQUIRES header.size() == alignment.size(). An empty header row is not printed.
  TextTable(std::vector<std::string> header, std::vector<Align> alignment);

  void add(
      std::vector<std::string> cells);  // missing cells are empty, surplus ones an error of the programmer
  void add_rule();                      // a line of dashes
  std::string to_text(int indent = 0) const;  // every line ends with '\n'; no trailing spaces

 private:
  std::vector<std::string> header_;
  std::vector<Align> alignment_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace plimsoll
