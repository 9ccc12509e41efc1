// Things of a Program that a text defines by number, in any order, and refers to before or after. When the
// text has ended every number from 0 must be defined, and everything that was referred to.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace plimsoll {

template <typename T>
class TextIds {
 public:
  // `kind` and `letter` as messages show them: "tensor", '%'.
  TextIds(std::string_view kind, std::string_view letter) : kind_(kind), letter_(letter) {}

  bool has(uint32_t id) const { return defined_.contains(id); }
  T& operator[](uint32_t id) { return defined_.at(id); }
  size_t size() const { return defined_.size(); }

  Result<void> define(uint32_t id, T value, SourcePosition position) {
    if (!defined_.emplace(id, std::move(value)).second)
      return fail({.position = std::move(position),
                   .message = fmt::format("{} {}{} is defined a second time", kind_, letter_, id)});
    return {};
  }
  void refer(uint32_t id, int line, int column) { references_.push_back({id, line, column}); }

  // All of them by number.
  Result<std::vector<T>> take(const std::string& file) {
    for (const Reference& r : references_)
      if (!has(r.id))
        return fail({.position = {.file = file, .line = r.line, .column = r.column},
                     .message = fmt::format("{} {}{} is defined nowhere", kind_, letter_, r.id)});
    std::vector<T> all;
    all.reserve(defined_.size());
    for (uint32_t id = 0; id < defined_.size(); ++id) {
      const auto found = defined_.find(id);
      if (found == defined_.end())
        return fail({.position = {.file = file},
                     .message = fmt::format("{} {}{} is missing", kind_, letter_, id),
                     .expected = fmt::format("{} numbers from 0 without gaps", kind_)});
      all.push_back(std::move(found->second));
    }
    return all;
  }

 private:
  struct Reference {
    uint32_t id = 0;
    int line = 0, column = 0;
  };
  std::string_view kind_, letter_;
  std::unordered_map<uint32_t, T> defined_;
  std::vector<Reference> references_;
};

}  // namespace plimsoll
