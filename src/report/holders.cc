#include "report/holders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "base/block.h"

namespace plimsoll {
namespace {

constexpr size_t kMostRuns = 4;  // of numbers that are told one by one

// The event after `event` at which each storage is freed.
std::vector<std::optional<size_t>> deaths_after(const EstimateRun& run, size_t event) {
  std::vector<std::optional<size_t>> deaths(run.program.storages.size());
  for (size_t i = event + 1; i < run.timeline.events.size(); ++i) {
    const MemoryEvent& e = run.timeline.events[i];
    if (!e.is_alloc && !deaths[e.storage.value]) deaths[e.storage.value] = i;
  }
  return deaths;
}

struct Key {
  std::string pattern;
  Category category;
  std::string_view op;  // kinds that PyTorch calls by one name are one
  int64_t bytes;
  std::string born, dies;

  auto tie() const { return std::tie(pattern, category, op, bytes, born, dies); }
  bool operator<(const Key& other) const { return tie() < other.tie(); }
};
struct Members {
  int64_t count = 0;
  std::set<int64_t> numbers;
};

HolderGroup group_of(const Key& key, const Members& members) {
  HolderGroup group{.module = key.pattern,
                    .category = key.category,
                    .made_by = std::string(key.op),
                    .each = Bytes{key.bytes},
                    .count = members.count,
                    .born = key.born,
                    .dies = key.dies};
  if (members.numbers.empty()) return group;
  const std::string numbers = numbers_text({members.numbers.begin(), members.numbers.end()});
  group.module.replace(group.module.find("{}"), 2,
                       members.numbers.size() == 1 ? numbers : fmt::format("{{{}}}", numbers));
  return group;
}

}  // namespace

FoldedPath fold_path(const std::string& module) {
  size_t begin = 0;
  while (begin <= module.size()) {
    const size_t end = std::min(module.find('.', begin), module.size());
    int64_t number = 0;
    const char* const last = module.data() + end;
    const auto [parsed, error] = std::from_chars(module.data() + begin, last, number);
    if (error == std::errc() && parsed == last)
      return {.pattern = module.substr(0, begin) + "{}" + module.substr(end), .number = number};
    begin = end + 1;
  }
  return {.pattern = module};
}

std::string numbers_text(const std::vector<int64_t>& numbers) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    runs.push_back(end == i + 1 ? std::to_string(numbers[i])
                                : fmt::format("{}..{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  if (runs.size() > kMostRuns)
    return fmt::format("{} of {}..{}", numbers.size(), numbers.front(), numbers.back());
  return fmt::format("{}", fmt::join(runs, ","));
}

std::vector<HolderGroup> holders_at(const EstimateRun& run, size_t event) {
  const std::vector<std::optional<size_t>> deaths = deaths_after(run, event);
  std::map<Key, Members> groups;
  for (const LiveStorage& live : live_at(run.timeline, event)) {
    const Storage& storage = run.program.storage(live.storage);
    if (storage.tier != Tier::kGpu) continue;
    const FoldedPath path = fold_path(run.program.module_name(storage.owner));
    const std::optional<size_t> death = deaths[live.storage.value];
    Members& members =
        groups[{.pattern = path.pattern,
                .category = run.shown[live.born_event],
                .op = aten_name_of(run.program.op(live.born_op).kind),
                .bytes = round_to_block(storage.bytes).value,
                .born = run.timeline.phases[live.born_phase].phase,
                .dies = death ? run.timeline.phases[run.timeline.events[*death].phase].phase : "never"}];
    ++members.count;
    if (path.number) members.numbers.insert(*path.number);
  }
  std::vector<HolderGroup> sorted;
  for (const auto& [key, members] : groups) sorted.push_back(group_of(key, members));
  std::ranges::stable_sort(sorted, std::greater(), &HolderGroup::total);
  return sorted;
}

}  // namespace plimsoll
