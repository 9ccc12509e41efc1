// A model's configuration as a tree of values with their places, whatever syntax it was written in. An
// importer parses a file into it; a family reads it through a ConfigReader.
//
// Invariant: an object's keys are distinct; the tree is no deeper than its importer's bound.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plimsoll {

struct ConfigMember;

struct ConfigValue {
  using List = std::vector<ConfigValue>;
  using Object = std::vector<ConfigMember>;  // in the file's order

  // The monostate is null.
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Object> value;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(value); }
};

struct ConfigMember {
  std::string key;
  ConfigValue value;
  int line = 0;  // of the key, 1-based; 0: unknown
  int column = 0;
};

// A stranger's text as messages show it: at most 60 bytes, whole characters, control characters as '?'.
std::string shown_text(std::string_view text);

}  // namespace plimsoll
