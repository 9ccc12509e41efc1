#include "strategy/path_match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "hardware/name_match.h"

namespace plimsoll {
namespace {

constexpr size_t kLongestWord = 64;
constexpr size_t kMostMatches = 3;

std::string_view last_part(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

// Letters apart; empty: not near.
std::optional<size_t> nearness(std::string_view word, std::string_view name) {
  const size_t whole = edit_distance(word, name);
  const size_t part = edit_distance(last_part(word), last_part(name)) + 1;
  if (std::min(whole, part) <= 1 + word.size() / 6) return std::min(whole, part);
  const std::string_view a = last_part(word), b = last_part(name);
  if (a.size() < 3 || b.size() < 3 || !(a.starts_with(b) || b.starts_with(a))) return std::nullopt;
  const bool is_same_section =
      word.size() > a.size() && name.starts_with(word.substr(0, word.size() - a.size()));
  return is_same_section ? kLongestWord : kLongestWord + 1;
}

}  // namespace

std::vector<std::string> near_paths(std::string_view wanted, const std::vector<std::string>& names) {
  const std::string word = normalized_name(wanted.substr(0, kLongestWord));
  std::vector<std::pair<size_t, size_t>> found;  // nearness, index
  if (word.empty()) return {};
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto distance = nearness(word, normalized_name(names[i]))) found.emplace_back(*distance, i);
  std::ranges::sort(found);
  if (found.size() > kMostMatches) found.resize(kMostMatches);
  std::vector<std::string> matches;
  for (const auto& [distance, index] : found) matches.push_back(names[index]);
  return matches;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const auto matches = near_paths(word, names);
  if (matches.empty()) return {};
  return fmt::format("did you mean {}?", fmt::join(matches, " or "));
}

}  // namespace plimsoll
