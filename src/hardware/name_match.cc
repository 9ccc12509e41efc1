#include "hardware/name_match.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace plimsoll {

std::string normalized_name(std::string_view name) {
  std::string text;
  for (const char c : name)
    text += c == ' ' || c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::vector<std::string> close_matches(std::string_view name, const std::vector<std::string>& names) {
  constexpr size_t kLongestName = 64;  // longer ones are no slips of the pen
  std::vector<std::pair<size_t, std::string>> ranked;
  if (name.size() < 2 || name.size() > kLongestName) return {};
  for (const std::string& candidate : names) {
    const bool holds = candidate.find(name) != std::string::npos;
    const size_t distance = holds ? 0 : edit_distance(name, candidate);
    if (distance <= std::max<size_t>(1, name.size() / 3)) ranked.emplace_back(distance, candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (auto& [distance, candidate] : ranked) nearest.push_back(std::move(candidate));
  return nearest;
}

}  // namespace plimsoll
