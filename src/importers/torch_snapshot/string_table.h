// Strings, each kept once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "trace/hash_index.h"

namespace plimsoll {

class StringTable {
 public:
  uint32_t add(std::string_view text) {
    if (last_ < texts_.size() && texts_[last_] == text) return last_;  // one that each event has
    last_ = find_or_add(text);
    return last_;
  }
  std::string_view text(uint32_t id) const { return texts_[id]; }
  size_t size() const { return texts_.size(); }

 private:
  uint32_t find_or_add(std::string_view text) {
    const uint64_t hash = std::hash<std::string_view>()(text);
    if (const auto known = ids_.find(hash, [&](uint32_t id) { return texts_[id] == text; })) return *known;
    texts_.emplace_back(text);
    const auto id = static_cast<uint32_t>(texts_.size() - 1);
    ids_.add(hash, id);
    return id;
  }

  std::deque<std::string> texts_;
  HashIndex ids_;
  uint32_t last_ = 0;  // that was added or found
};

}  // namespace plimsoll
