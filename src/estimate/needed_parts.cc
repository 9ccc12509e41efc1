#include "estimate/needed_parts.h"

#include <algorithm>

namespace plimsoll {
namespace {

bool is_among(const PartIndices& parts, size_t part) { return std::ranges::find(parts, part) != parts.end(); }

PartIndices without(PartIndices parts, const PartIndices& dropped) {
  std::erase_if(parts, [&](size_t part) { return is_among(dropped, part); });
  return parts;
}

// Those of `suspects`, last first, without which the rest still does.
PartIndices idle_among(const PartIndices& parts, const PartIndices& suspects, const StillDoes& still_does) {
  PartIndices asked;
  std::vector<PartIndices> lists;
  for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
    if (!is_among(suspects, *it)) continue;
    asked.push_back(*it);
    lists.push_back(without(parts, {*it}));
  }
  const std::vector<bool> answers = still_does(lists);
  PartIndices idle;
  for (size_t i = 0; i < asked.size(); ++i)
    if (answers[i]) idle.push_back(asked[i]);
  return idle;
}

}  // namespace

PartIndices needed_parts(PartIndices parts, const PartIndices& suspects, const StillDoes& still_does) {
  if (parts.size() < 2 || suspects.empty()) return parts;
  PartIndices idle = idle_among(parts, suspects, still_does);
  if (idle.empty()) return parts;
  if (idle.size() < parts.size() && still_does({without(parts, idle)})[0]) return without(parts, idle);
  // One of them is known to do: the others are asked about again.
  parts = without(parts, {idle.front()});
  idle.erase(idle.begin());
  for (const size_t part : idle)
    if (parts.size() > 1 && still_does({without(parts, {part})})[0]) parts = without(parts, {part});
  return parts;
}

}  // namespace plimsoll
