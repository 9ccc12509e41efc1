#include "replay/annotated_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

namespace plimsoll {
namespace {

constexpr Nanoseconds kBeginning{std::numeric_limits<int64_t>::min()};

// In order of time, with a start for every end.
std::vector<TraceAnnotation> whole_ranges(const AllocationTrace& trace) {
  std::vector<TraceAnnotation> moments = trace.annotations;
  std::ranges::stable_sort(moments, {}, &TraceAnnotation::time);
  std::map<std::string, int64_t> open;
  std::vector<TraceAnnotation> lost;
  for (const TraceAnnotation& moment : moments) {
    int64_t& count = open[moment.name];
    if (!moment.is_end)
      ++count;
    else if (count > 0)
      --count;
    else
      lost.push_back({.time = kBeginning, .name = moment.name});
  }
  // What ended last began first.
  moments.insert(moments.begin(), lost.rbegin(), lost.rend());
  return moments;
}

// The names of the open ranges as time goes on.
class OpenRanges {
 public:
  OpenRanges(const AllocationTrace& trace, std::vector<std::vector<std::string>>& paths)
      : moments_(whole_ranges(trace)), paths_(paths) {
    for (uint32_t i = 0; i < paths.size(); ++i) known_[paths[i]] = i;
  }

  // A place among the paths. REQUIRES times in order.
  uint32_t at(Nanoseconds time) {
    for (; next_ < moments_.size() && moments_[next_].time <= time; ++next_) take(moments_[next_]);
    if (is_path_old_) find_path();
    return path_;
  }

 private:
  void take(const TraceAnnotation& moment) {
    is_path_old_ = true;
    if (!moment.is_end) return open_.push_back(moment.name);
    const auto last = std::ranges::find(open_.rbegin(), open_.rend(), moment.name);
    if (last != open_.rend()) open_.erase(std::next(last).base());
  }
  void find_path() {
    const size_t shown = std::min(open_.size(), BlockNames::kMostNames);
    const std::vector<std::string> path(open_.end() - static_cast<std::ptrdiff_t>(shown), open_.end());
    const auto [found, is_new] = known_.try_emplace(path, static_cast<uint32_t>(paths_.size()));
    if (is_new) paths_.push_back(path);
    path_ = found->second;
    is_path_old_ = false;
  }

  std::vector<TraceAnnotation> moments_;
  size_t next_ = 0;
  std::vector<std::string> open_;
  std::vector<std::vector<std::string>>& paths_;
  std::map<std::vector<std::string>, uint32_t> known_;
  uint32_t path_ = 0;
  bool is_path_old_ = false;
};

class Groups {
 public:
  void add(const std::string& name, const LiveBlock& block) {
    NamedBlocks& group = groups_[name];
    ++group.count;
    group.total += block.bytes;
  }
  std::vector<NamedBlocks> sorted() {
    const bool has_names = groups_.size() > 1 || (groups_.size() == 1 && !groups_.begin()->first.empty());
    std::vector<NamedBlocks> all;
    if (!has_names) return all;
    for (auto& [name, group] : groups_) {
      group.name = name;
      all.push_back(std::move(group));
    }
    std::ranges::stable_sort(all, std::greater(), &NamedBlocks::total);
    return all;
  }

 private:
  std::map<std::string, NamedBlocks> groups_;
};

void find_paths(const AllocationTrace& trace, std::span<const LiveBlock> blocks, BlockNames& names) {
  std::vector<std::pair<Nanoseconds, size_t>> timed;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].event && trace.events[*blocks[i].event].time)
      timed.emplace_back(*trace.events[*blocks[i].event].time, i);
  std::ranges::stable_sort(timed, {}, [](const auto& t) { return t.first; });
  OpenRanges ranges(trace, names.paths);
  for (const auto& [time, block] : timed) names.path_of[block] = ranges.at(time);
}

void find_metadata(const AllocationTrace& trace, std::span<const LiveBlock> blocks,
                   std::optional<size_t> until, BlockNames& names) {
  std::unordered_map<uint64_t, size_t> at;
  for (size_t i = 0; i < blocks.size(); ++i) at[blocks[i].address] = i;
  for (const EventMetadata& told : trace.metadata) {
    if (!until || told.event > *until) break;
    const AllocationEvent& event = trace.events[told.event];
    const bool is_of_block =
        event.action == AllocationAction::kAlloc || event.action == AllocationAction::kUserDefined;
    const auto block = at.find(event.address);
    if (!is_of_block || block == at.end() || told.event < blocks[block->second].event.value_or(0)) continue;
    std::string& text = names.metadata[block->second];
    text += (text.empty() ? "" : ", ") + told.text;
  }
}

}  // namespace

BlockNames names_of_blocks(const AllocationTrace& trace, std::span<const LiveBlock> blocks,
                           std::optional<size_t> until) {
  BlockNames names;
  names.path_of.resize(blocks.size());
  names.metadata.resize(blocks.size());
  if (!trace.annotations.empty()) find_paths(trace, blocks, names);
  if (!trace.metadata.empty()) find_metadata(trace, blocks, until, names);
  return names;
}

AnnotatedBlocks annotated_blocks(const AllocationTrace& trace, std::span<const LiveBlock> blocks,
                                 std::optional<size_t> until) {
  const BlockNames names = names_of_blocks(trace, blocks, until);
  Groups annotations, metadata;
  for (size_t i = 0; i < blocks.size(); ++i) {
    annotations.add(fmt::format("{}", fmt::join(names.paths[names.path_of[i]], " > ")), blocks[i]);
    metadata.add(names.metadata[i], blocks[i]);
  }
  return {.annotations = annotations.sorted(), .metadata = metadata.sorted()};
}

}  // namespace plimsoll
