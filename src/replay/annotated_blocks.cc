#include "replay/annotated_blocks.h"

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
  explicit OpenRanges(const AllocationTrace& trace) : moments_(whole_ranges(trace)) {}

  // REQUIRES times in order.
  const std::string& at(Nanoseconds time) {
    for (; next_ < moments_.size() && moments_[next_].time <= time; ++next_) take(moments_[next_]);
    if (is_path_old_) write_path();
    return path_;
  }

 private:
  void take(const TraceAnnotation& moment) {
    is_path_old_ = true;
    if (!moment.is_end) return open_.push_back(moment.name);
    const auto last = std::ranges::find(open_.rbegin(), open_.rend(), moment.name);
    if (last != open_.rend()) open_.erase(std::next(last).base());
  }
  void write_path() {
    constexpr size_t kMostNames = 4;  // the innermost
    path_.clear();
    for (size_t i = open_.size() > kMostNames ? open_.size() - kMostNames : 0; i < open_.size(); ++i)
      path_ += (path_.empty() ? "" : " > ") + open_[i];
    is_path_old_ = false;
  }

  std::vector<TraceAnnotation> moments_;
  size_t next_ = 0;
  std::vector<std::string> open_;
  std::string path_;
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

std::vector<NamedBlocks> by_annotation(const AllocationTrace& trace, std::span<const LiveBlock> blocks) {
  if (trace.annotations.empty()) return {};
  std::vector<std::pair<Nanoseconds, const LiveBlock*>> timed;
  Groups groups;
  for (const LiveBlock& block : blocks) {
    const auto time = block.event ? std::optional(trace.events[*block.event].time) : std::nullopt;
    if (time && *time)
      timed.emplace_back(**time, &block);
    else
      groups.add("", block);
  }
  std::ranges::stable_sort(timed, {}, [](const auto& t) { return t.first; });
  OpenRanges ranges(trace);
  for (const auto& [time, block] : timed) groups.add(ranges.at(time), *block);
  return groups.sorted();
}

std::vector<NamedBlocks> by_metadata(const AllocationTrace& trace, std::span<const LiveBlock> blocks,
                                     std::optional<size_t> until) {
  if (trace.metadata.empty()) return {};
  std::unordered_map<uint64_t, const LiveBlock*> at;
  for (const LiveBlock& block : blocks) at[block.address] = &block;
  std::unordered_map<uint64_t, std::string> texts;  // by address
  for (const EventMetadata& told : trace.metadata) {
    if (!until || told.event > *until) break;
    const AllocationEvent& event = trace.events[told.event];
    const bool is_of_block =
        event.action == AllocationAction::kAlloc || event.action == AllocationAction::kUserDefined;
    const auto block = at.find(event.address);
    if (!is_of_block || block == at.end() || told.event < block->second->event.value_or(0)) continue;
    std::string& text = texts[event.address];
    text += (text.empty() ? "" : ", ") + told.text;
  }
  Groups groups;
  for (const LiveBlock& block : blocks) groups.add(texts[block.address], block);
  return groups.sorted();
}

}  // namespace

AnnotatedBlocks annotated_blocks(const AllocationTrace& trace, std::span<const LiveBlock> blocks,
                                 std::optional<size_t> until) {
  return {.annotations = by_annotation(trace, blocks), .metadata = by_metadata(trace, blocks, until)};
}

}  // namespace plimsoll
