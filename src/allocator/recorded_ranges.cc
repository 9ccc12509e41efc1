#include "allocator/recorded_ranges.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "allocator/rounding.h"

namespace plimsoll {
namespace {

constexpr uint64_t kUnlimitedRange = uint64_t{1} << 41;  // where no other range shows how long they are

struct Owner {
  HeapStream stream = kDefaultStream;
  PoolIndex pool = 0;
  bool is_large = false;

  friend auto operator<=>(const Owner&, const Owner&) = default;
};

// Pages that were mapped at some moment.
struct Mapped {
  uint64_t address = 0;
  uint64_t end = 0;
  Owner owner;
  bool is_of_start = false;               // of a range that was there at the start
  const TraceSegment* segment = nullptr;  // at the start; null: mapped later
};

// Which entry of `mapped` each page is of at the moment.
class MappedNow {
 public:
  void set(uint64_t begin, uint64_t end, size_t entry) {
    cut(begin, end);
    if (begin < end) parts_[begin] = {.end = end, .entry = entry};
  }
  // Forgets these pages; returns the entry of the first one.
  std::optional<size_t> cut(uint64_t begin, uint64_t end) {
    std::optional<size_t> first;
    auto at = parts_.upper_bound(begin);
    if (at != parts_.begin() && std::prev(at)->second.end > begin) {
      --at;
      first = at->second.entry;
    }
    while (at != parts_.end() && at->first < end) {
      const auto [begin_of_part, part] = *at;
      at = parts_.erase(at);
      if (begin_of_part < begin) parts_[begin_of_part] = {.end = begin, .entry = part.entry};
      if (part.end > end) parts_[end] = part;
    }
    return first;
  }

 private:
  struct Part {
    uint64_t end = 0;
    size_t entry = 0;
  };
  std::map<uint64_t, Part> parts_;  // by beginning
};

class Finder {
 public:
  explicit Finder(const ReplayScript& script) : script_(script) {}

  RecordedRanges find() {
    list_mapped();
    RecordedRanges ranges{.size_of_new = shortest_distance()};
    std::erase_if(mapped_, [](const Mapped& mapped) { return !mapped.is_of_start; });
    for (size_t at = 0; at < mapped_.size();) {
      const size_t next = end_of_cluster(at);
      const uint64_t to_next =
          next < mapped_.size() ? mapped_[next].address - mapped_[at].address : kUnlimitedRange;
      add_range(at, next, std::min(to_next, ranges.size_of_new), ranges);
      at = next;
    }
    return ranges;
  }

 private:
  // All ranges have one size, which isn't more than what lies between the beginnings of any two.
  uint64_t shortest_distance() const {
    uint64_t shortest = kUnlimitedRange;
    for (size_t at = 0, next = 0; at < mapped_.size(); at = next) {
      next = end_of_cluster(at);
      if (next == mapped_.size()) break;
      const uint64_t distance = mapped_[next].address - mapped_[at].address;
      if (distance > 0) shortest = std::min(shortest, distance);
    }
    return shortest;
  }

  // A range lives until its last page is unmapped; what its owner maps after that is another one.
  void list_mapped() {
    std::map<Owner, int64_t> bytes;
    MappedNow owners;
    for (const TraceSegment& segment : script_.at_start.segments) {
      if (!segment.is_expandable) continue;
      const Owner owner{
          .stream = script_.stream_of(segment.stream), .pool = segment.pool, .is_large = segment.is_large};
      owners.set(segment.address, segment.address + static_cast<uint64_t>(segment.bytes.value),
                 mapped_.size());
      mapped_.push_back({.address = segment.address,
                         .end = segment.address + static_cast<uint64_t>(segment.bytes.value),
                         .owner = owner,
                         .is_of_start = true,
                         .segment = &segment});
      bytes[owner] += segment.bytes.value;
    }
    for (const ReplayOp& op : script_.has_pages ? std::span(script_.ops) : std::span<const ReplayOp>()) {
      const bool is_map = op.kind == ReplayOp::Kind::kSegmentMap;
      if (!is_map && op.kind != ReplayOp::Kind::kSegmentUnmap) continue;
      const ReplayPlace& place = script_.places[op.place];
      if (is_map) {
        const bool is_large = op.slot != kNoOp && script_.ops[op.slot].bytes > kSmallLimit;
        const Owner owner{.stream = place.stream, .pool = place.pool, .is_large = is_large};
        const bool is_of_start = bytes[owner] > 0;
        if (is_of_start) bytes[owner] += static_cast<int64_t>(op.bytes);
        owners.set(op.address, op.address + op.bytes, mapped_.size());
        mapped_.push_back({.address = op.address,
                           .end = op.address + op.bytes,
                           .owner = owner,
                           .is_of_start = is_of_start});
        continue;
      }
      const std::optional<size_t> unmapped = owners.cut(op.address, op.address + op.bytes);
      if (unmapped && mapped_[*unmapped].is_of_start)
        bytes[mapped_[*unmapped].owner] -= static_cast<int64_t>(op.bytes);
    }
    std::ranges::stable_sort(mapped_, {}, &Mapped::address);
  }

  size_t end_of_cluster(size_t at) const {
    size_t end = at + 1;
    while (end < mapped_.size() && mapped_[end].owner == mapped_[at].owner) ++end;
    return end;
  }

  // A range holds at least what is mapped in it.
  void add_range(size_t begin, size_t end, uint64_t size, RecordedRanges& ranges) const {
    RecordedRange range{.address = mapped_[begin].address, .size = size};
    for (size_t at = begin; at < end; ++at) {
      if (mapped_[at].segment != nullptr) range.segments.push_back(mapped_[at].segment);
      range.size = std::max(range.size, mapped_[at].end - range.address);
    }
    if (!range.segments.empty()) ranges.at_start.push_back(std::move(range));
  }

  const ReplayScript& script_;
  std::vector<Mapped> mapped_;
};

}  // namespace

RecordedRanges find_recorded_ranges(const ReplayScript& script) { return Finder(script).find(); }

}  // namespace plimsoll
