#include "train/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cli/command_line.h"
#include "runtime/communication/texts.h"

namespace plimsoll {
namespace {

// Of a rank with an error: kUsersFault or kOurs, then its text. Of others kReady, then the facts: each
// kFactBegins, the name, kValueBegins, the value. TOML and JSON write these characters as escapes.
constexpr char kReady = 'r', kUsersFault = 'u', kOurs = 'o';
constexpr char kFactBegins = '\x1e', kValueBegins = '\x1f';

std::string message_of(const Result<void>& own, const std::vector<Fact>& facts) {
  if (!own) return (own.error().is_internal ? kOurs : kUsersFault) + own.error().to_text();
  std::string text(1, kReady);
  for (const Fact& fact : facts) text += kFactBegins + fact.name + kValueBegins + fact.value;
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
  }
  return parts;
}

// The facts in a rank's message.
std::vector<Fact> facts_in(const std::string& message) {
  std::vector<Fact> facts;
  std::vector<std::string> parts = split(message, kFactBegins);
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    const size_t name_end = std::min(part->find(kValueBegins), part->size());
    facts.push_back(
        {.name = part->substr(0, name_end), .value = part->substr(std::min(name_end + 1, part->size()))});
  }
  return facts;
}

// "rank 3", "ranks 0-2, 5"
std::string ranks_text(const std::vector<size_t>& ranks) {
  std::vector<std::string> stretches;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    stretches.push_back(last == i ? fmt::format("{}", ranks[i])
                                  : fmt::format("{}-{}", ranks[i], ranks[last]));
    i = last + 1;
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(stretches, ", "));
}

// "a on ranks 0, 2; b on rank 1"
std::string by_value(const std::vector<std::string>& values) {
  constexpr size_t kMostShown = 4;
  std::vector<std::pair<std::string, std::vector<size_t>>> groups;  // in the order of their first ranks
  for (size_t r = 0; r < values.size(); ++r) {
    const auto same = std::ranges::find(groups, values[r], [](const auto& group) { return group.first; });
    if (same == groups.end())
      groups.push_back({values[r], {r}});
    else
      same->second.push_back(r);
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(kMostShown, groups.size()); ++i)
    texts.push_back(fmt::format("{} on {}", groups[i].first, ranks_text(groups[i].second)));
  if (groups.size() > kMostShown) texts.push_back(fmt::format("{} others", groups.size() - kMostShown));
  return fmt::format("{}", fmt::join(texts, "; "));
}

bool are_equal(const std::vector<std::string>& values) {
  return std::ranges::all_of(values, [&](const std::string& value) { return value == values.front(); });
}

std::string without_indent(const std::string& line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

// The first line that isn't the same everywhere; "nothing more" where there is none, or a section ends.
std::vector<std::string> first_difference(const std::vector<std::string>& values) {
  std::vector<std::vector<std::string>> lines;
  size_t longest = 0;
  for (const std::string& value : values) {
    lines.push_back(split(value, '\n'));
    longest = std::max(longest, lines.back().size());
  }
  std::vector<std::string> found(values.size());
  for (size_t line = 0; line < longest; ++line) {
    for (size_t r = 0; r < lines.size(); ++r)
      found[r] = line < lines[r].size() ? without_indent(lines[r][line]) : std::string();
    if (!are_equal(found)) break;
  }
  std::ranges::replace(found, std::string(), std::string("nothing more"));
  return found;
}

// REQUIRES messages of ranks that are ready.
Result<void> compare_facts(const std::vector<std::string>& messages) {
  if (are_equal(messages)) return {};
  std::vector<std::vector<Fact>> all;
  for (const std::string& message : messages) all.push_back(facts_in(message));
  for (size_t i = 0; i < all.front().size(); ++i) {
    std::vector<std::string> values;
    for (const std::vector<Fact>& facts : all)
      values.push_back(i < facts.size() ? facts[i].value : std::string());
    if (are_equal(values)) continue;
    return fail(
        {.message = fmt::format("the ranks differ in {}: {}", all.front()[i].name,
                                by_value(first_difference(values))),
         .expected = "the same on every rank: one job with the same options, files of equal content"});
  }
  return fail({.message = "the ranks run other programs, or were started otherwise",
               .expected = "the same program and job on every rank"});
}

}  // namespace

Result<void> agree(runtime::Communicator& communicator, const Result<void>& own,
                   const std::vector<Fact>& facts) {
  const std::string message = message_of(own, facts);
  PLIMSOLL_TRY(all, runtime::gather_texts(communicator, message));
  const auto failed = std::ranges::find_if(all, [](const std::string& text) { return text[0] != kReady; });
  if (failed == all.end()) return compare_facts(all);
  const auto rank = failed - all.begin();
  if (rank == 0 && !own && message == *failed) return own;
  return fail({.message = (rank == 0 ? "" : fmt::format("rank {}: ", rank)) + failed->substr(1),
               .is_internal = (*failed)[0] == kOurs});
}

Result<int> end_together(runtime::Communicator& communicator, const Error& error) {
  if (communicator.rank() == 0) {
    print_error(error);
    std::fflush(stderr);
  }
  const Result<void> met = runtime::meet(communicator);  // the run fails in any case
  if (!met && communicator.rank() != 0) return fail(error);
  return exit_code_of(error);
}

}  // namespace plimsoll
