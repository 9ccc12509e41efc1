// Where a number of the catalog comes from. Every number in data/ has one; an estimate is a number that
// nobody published or measured for this very part, and a report that rests on it says so.
//
//   const Fact* fact = find_fact(gpu.facts, "memory.context_mib");
//   if (fact->is_estimate) notes.push_back(fact->key + " is an estimate: " + fact->source);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

struct Fact {
  std::string key;     // "memory.usable_gib": its path in the file, ending in its unit
  double value = 0;    // in that unit
  std::string source;  // the sentence of the file's [sources]
  bool is_estimate = false;
};

// The fact with that key, or nullptr.
const Fact* find_fact(const std::vector<Fact>& facts, std::string_view key);

}  // namespace plimsoll
