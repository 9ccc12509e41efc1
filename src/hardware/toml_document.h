// A TOML file as a flat, ordered list of its values, each with its dotted key and its place. The only place
// that knows the TOML library.
//
//   [memory]                                          memory.usable_gib.value   79.19   line 9
//   usable_gib = { value = 79.19, source = "oom" }    memory.usable_gib.source  "oom"   line 9
//
// Refuses what our files never need: more than 256 KiB or 2 KiB in a line, more than 2,000 values, keys of
// other characters than letters, digits, '_' and '-', dates, and arrays of anything but text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace plimsoll {

struct EmptyTable {};

struct TomlValue {
  std::variant<EmptyTable, bool, int64_t, double, std::string, std::vector<std::string>> content;
  int line = 0;
  int column = 0;
};

struct TomlDocument {
  std::string file;
  std::map<std::string, TomlValue, std::less<>> values;  // by dotted key

  SourcePosition position_of(std::string_view key) const;  // only the file when there is no such key
};

Result<TomlDocument> parse_toml(std::string_view text, std::string file);
Result<TomlDocument> read_toml(const std::filesystem::path& path);

}  // namespace plimsoll
