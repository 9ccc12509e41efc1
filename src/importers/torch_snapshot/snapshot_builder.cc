#include "importers/torch_snapshot/snapshot_builder.h"

#include <algorithm>
#include <limits>

#include "base/large_pages.h"

namespace plimsoll {
namespace {

using Key = SnapshotKey;

uint64_t hash_of(const PoolId& pool) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ULL;  // 2^64 / the golden ratio: its products spread
  const uint64_t owner = static_cast<uint64_t>(pool.owner) * kOdd;
  return (static_cast<uint64_t>(pool.id) ^ (owner >> 32U) ^ owner) * kOdd;
}

// Their numbers in the string table follow those of the keys.
constexpr std::array<std::pair<std::string_view, AllocationAction>, 11> kActions = {{
    {"alloc", AllocationAction::kAlloc},
    {"free_requested", AllocationAction::kFreeRequested},
    {"free_completed", AllocationAction::kFreeCompleted},
    {"segment_alloc", AllocationAction::kSegmentAlloc},
    {"segment_free", AllocationAction::kSegmentFree},
    {"segment_map", AllocationAction::kSegmentMap},
    {"segment_unmap", AllocationAction::kSegmentUnmap},
    {"oom", AllocationAction::kOutOfMemory},
    {"snapshot", AllocationAction::kSnapshot},
    {"user_defined", AllocationAction::kUserDefined},
    {"annotate", AllocationAction::kUserDefined},
}};
constexpr uint32_t kFirstAction = static_cast<uint32_t>(Key::kCount);

// A vector of millions grows at once to what the rest of the file will add, if it goes on like this: growing
// twofold would hold old and new places together, and copy all several times.
template <typename T>
void append(std::vector<T>& to, T&& value, const PickleReader& reader) {
  constexpr size_t kLarge = size_t{1} << 18;
  constexpr double kLeast = 1.25, kMost = 16;
  if (to.size() == to.capacity() && to.size() >= kLarge) {
    const double share = reader.share_read().value_or(1);
    const double times = std::clamp(1.02 / std::max(share, 1e-6), kLeast, kMost);
    to.reserve(static_cast<size_t>(static_cast<double>(to.size()) * times));
    prefer_large_pages(to.data(), to.capacity() * sizeof(T));
  }
  to.push_back(std::forward<T>(value));
}

// Of others the address is none.
bool is_of_memory(AllocationAction action) {
  return action != AllocationAction::kOutOfMemory && action != AllocationAction::kSnapshot &&
         action != AllocationAction::kUserDefined;
}

template <typename T>
uint32_t last_index(const std::vector<T>& table) {
  return static_cast<uint32_t>(table.size() - 1);
}

// The keys and actions come first, so that their ids are known. The id of the empty string, which follows.
uint32_t add_known_strings(StringTable& strings) {
  for (std::string_view key : kSnapshotKeys) strings.add(key);
  for (const auto& [name, action] : kActions) strings.add(name);
  return strings.add("");
}

}  // namespace

SnapshotBuilder::SnapshotBuilder(StringTable& strings)
    : strings_(strings), empty_string_(add_known_strings(strings)) {}

Result<std::optional<PickleValue>> SnapshotBuilder::take_dict(PickleReader& reader,
                                                              std::span<const PickleValue> items) {
  const Fields f(reader, items);
  if (f.has(Key::kAction)) return take_event(f);
  if (f.has(Key::kFilename)) return take_frame(f);
  if (f.has(Key::kTotalSize) && f.has(Key::kBlocks)) return take_segment(f);
  if (f.has(Key::kState)) return take_block(f);
  if (f.has(Key::kRealSize)) return take_past_block(f);
  if (f.has(Key::kStage)) return take_annotation(f);
  if (f.has(Key::kSegments)) return take_root(f);
  return std::optional<PickleValue>();
}

std::optional<PickleValue> SnapshotBuilder::take_list(std::span<const PickleValue> items) {
  frames_.resize(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_object(kFrame)) return std::nullopt;
    frames_[i] = items[i].id;
  }
  return PickleValue::object(kStack, stacks_.add(frames_));
}

SnapshotBuilder::Taken SnapshotBuilder::take_frame(const Fields& f) {
  PLIMSOLL_TRY(name, f.string(Key::kName));
  PLIMSOLL_TRY(filename, f.string(Key::kFilename));
  PLIMSOLL_TRY(line, f.integer(Key::kLine));
  const int64_t shown = std::clamp<int64_t>(line, 0, std::numeric_limits<int>::max());
  return PickleValue::object(kFrame, stacks_.add_frame({.name = std::string(name),
                                                        .filename = std::string(filename),
                                                        .line = static_cast<int>(shown)}));
}

Result<void> SnapshotBuilder::take_frames(const Fields& f, std::optional<StackId>& stack) {
  const PickleValue* const v = f.find(Key::kFrames);
  if (!v || v->kind == PickleKind::kNone) return {};
  if (v->is_object(kStack)) {
    stack = v->id;
    return {};
  }
  if (v->kind != PickleKind::kList && v->kind != PickleKind::kConsumed)
    return f.reader().fail_here("\"frames\" has another type", "a list of frames");
  const std::span<const PickleValue> items =
      f.reader().items(*v);  // none, or so many that they came in batches
  const std::optional<PickleValue> object = items.empty() ? std::nullopt : take_list(items);
  if (object) stack = object->id;
  if (!object && !items.empty()) return f.reader().fail_here("\"frames\" holds something else", "frames");
  return {};
}

AllocationAction SnapshotBuilder::action_of(uint32_t string_id) {
  const uint32_t index = string_id - kFirstAction;
  if (string_id >= kFirstAction && index < kActions.size()) return kActions[index].second;
  count("events of a kind that is not known");
  return AllocationAction::kUserDefined;
}

Result<PoolIndex> SnapshotBuilder::pool_of(const Fields& f, Key key) {
  const PickleValue* const v = f.find(key);
  if (!v || v->kind != PickleKind::kPair) return PoolIndex{0};
  const auto [owner, id] = f.reader().pair(*v);
  const PoolId pool{.owner = owner, .id = id};
  if (pools_.back() == pool) return static_cast<PoolIndex>(pools_.size() - 1);
  if (pool == PoolId()) return PoolIndex{0};
  const uint64_t hash = hash_of(pool);
  const auto known = pool_index_.find(hash, [&](uint32_t i) { return pools_[i] == pool; });
  if (known) return static_cast<PoolIndex>(*known);
  constexpr size_t kMostPools = std::numeric_limits<PoolIndex>::max();
  if (pools_.size() >= kMostPools)
    return f.reader().fail_here("too many memory pools", fmt::format("at most {}", kMostPools));
  pool_index_.add(hash, static_cast<uint32_t>(pools_.size()));
  pools_.push_back(pool);
  return static_cast<PoolIndex>(pools_.size() - 1);
}

// That the range has an end, and that no sum over the snapshot can leave what Bytes can hold.
Result<void> SnapshotBuilder::check_range(const Fields& f, std::string_view what, uint64_t address,
                                          Bytes bytes) {
  if (static_cast<uint64_t>(bytes.value) > std::numeric_limits<uint64_t>::max() - address)
    return f.reader().fail_here(
        fmt::format("a {} of {} bytes at {:#x} ends beyond the last address", what, bytes.value, address),
        "a range of addresses below 2^64");
  all_bytes_ += bytes;
  if (all_bytes_.is_saturated())
    return f.reader().fail_here(
        fmt::format(
            "with the {} of {} bytes at {:#x} the sizes of the snapshot add up to more than any machine "
            "has",
            what, bytes.value, address),
        fmt::format("sizes that add up to less than {} bytes", kMaxQuantity));
  return {};
}

SnapshotBuilder::Taken SnapshotBuilder::take_event(const Fields& f) {
  AllocationEvent event;
  PLIMSOLL_TRY(action, f.string_id(Key::kAction));
  event.action = action_of(action);
  PLIMSOLL_TRY(address, f.address(f.has(Key::kAddr) ? Key::kAddr : Key::kDeviceFree));
  PLIMSOLL_TRY(bytes, f.bytes(Key::kSize));
  event.address = address;
  event.bytes = bytes;
  if (is_of_memory(event.action)) PLIMSOLL_CHECK(check_range(f, strings_.text(action), address, bytes));
  PLIMSOLL_TRY(stream, f.stream());
  PLIMSOLL_TRY(time, f.time());
  event.stream = stream;
  event.time = time;
  std::optional<StackId> stack;
  PLIMSOLL_CHECK(take_frames(f, stack));
  event.stack = stack;
  PLIMSOLL_TRY(pool, pool_of(f, Key::kPoolId));
  event.pool = pool;
  if (f.has(Key::kUserMetadata)) {
    PLIMSOLL_TRY(text, f.string_id(Key::kUserMetadata));
    if (text != empty_string_)
      metadata_.push_back({.event = events_.size(), .text = std::string(strings_.text(text))});
  }
  if (event.action == AllocationAction::kUserDefined) named_moments_.push_back(events_.size());
  append(events_, std::move(event), f.reader());
  return PickleValue::object(kEvent, last_index(events_));
}

SnapshotBuilder::Taken SnapshotBuilder::take_past_block(const Fields& f) {
  PastBlock past;
  PLIMSOLL_TRY(bytes, f.bytes(Key::kRealSize));
  past.requested = bytes;
  PLIMSOLL_CHECK(take_frames(f, past.stack));
  past_blocks_.push_back(past);
  return PickleValue::object(kPastBlock, last_index(past_blocks_));
}

SnapshotBuilder::Taken SnapshotBuilder::take_block(const Fields& f) {
  TraceBlock block;
  PLIMSOLL_TRY(size, f.bytes(Key::kSize));
  PLIMSOLL_TRY(state, f.string(Key::kState));
  block.bytes = size;
  if (state == "active_allocated")
    block.state = BlockState::kAllocated;
  else if (state == "active_pending_free" || state == "active_awaiting_free")
    block.state = BlockState::kPendingFree;
  else if (state != "inactive")
    return f.reader().fail_here(fmt::format("block state {}", state),
                                "active_allocated, active_pending_free, active_awaiting_free or inactive");
  if (f.has(Key::kAddress)) {
    PLIMSOLL_TRY(address, f.address(Key::kAddress));
    block.address = address;
  }
  PLIMSOLL_CHECK(take_frames(f, block.stack));
  if (const PickleValue* const history = f.find(Key::kHistory)) {
    const std::span<const PickleValue> past = f.reader().items(*history);
    if (!past.empty() && past[0].is_object(kPastBlock)) {
      block.requested = past_blocks_[past[0].id].requested;
      block.stack = past_blocks_[past[0].id].stack;
    }
  }
  if (f.has(Key::kRequestedSize)) {
    PLIMSOLL_TRY(requested, f.bytes(Key::kRequestedSize));
    block.requested = requested;
  }
  if (block.state == BlockState::kFree) block.requested = Bytes{};  // of the last one that had the place
  append(blocks_, std::move(block), f.reader());
  return PickleValue::object(kBlock, last_index(blocks_));
}

SnapshotBuilder::Taken SnapshotBuilder::take_segment(const Fields& f) {
  TraceSegment segment;
  PLIMSOLL_TRY(address, f.address(Key::kAddress));
  PLIMSOLL_TRY(size, f.bytes(Key::kTotalSize));
  segment.address = address;
  segment.bytes = size;
  PLIMSOLL_CHECK(check_range(f, "segment", address, size));
  PLIMSOLL_TRY(stream, f.stream());
  segment.stream = stream;
  if (f.has(Key::kSegmentType)) {
    PLIMSOLL_TRY(type, f.string(Key::kSegmentType));
    segment.is_large = type == "large";
  }
  segment.is_expandable = f.is_true(Key::kIsExpandable);
  PLIMSOLL_TRY(pool, pool_of(f, Key::kSegmentPoolId));
  segment.pool = pool;
  PLIMSOLL_CHECK(take_frames(f, segment.stack));
  PLIMSOLL_CHECK(take_blocks(f, segment));
  PLIMSOLL_TRY(device, f.device());
  segments_.push_back(std::move(segment));
  segment_devices_.push_back(device);
  return PickleValue::object(kSegment, last_index(segments_));
}

// The blocks tile their segment; before PyTorch 2.1 their addresses follow from that.
Result<void> SnapshotBuilder::take_blocks(const Fields& f, TraceSegment& segment) const {
  const PickleValue* const list = f.find(Key::kBlocks);
  if (!list || list->kind != PickleKind::kList)
    return f.reader().fail_here("a segment without \"blocks\"", "a list of blocks");
  const ObjectRange range = f.reader().objects(*list).value_or(ObjectRange{});
  if (range.count > 0 && range.type != kBlock)
    return f.reader().fail_here("\"blocks\" holds something else", "blocks");
  segment.blocks.assign(blocks_.begin() + range.first, blocks_.begin() + range.first + range.count);
  uint64_t next = segment.address;
  Bytes total;
  for (TraceBlock& block : segment.blocks) {
    if (block.address == 0) block.address = next;
    if (block.address != next)
      return f.reader().fail_here(fmt::format("a block at {:#x} where {:#x} comes next", block.address, next),
                                  "blocks that follow each other");
    next += static_cast<uint64_t>(block.bytes.value);
    total += block.bytes;
  }
  if (total != segment.bytes)
    return f.reader().fail_here(fmt::format("the blocks of a segment of {} bytes add up to {} bytes",
                                            segment.bytes.value, total.value),
                                "blocks that fill their segment");
  return {};
}

SnapshotBuilder::Taken SnapshotBuilder::take_annotation(const Fields& f) {
  TraceAnnotation annotation;
  PLIMSOLL_TRY(stage, f.string(Key::kStage));
  PLIMSOLL_TRY(name, f.string(Key::kName));
  annotation.name = std::string(name);
  annotation.is_end = stage == "END";
  PLIMSOLL_TRY(time, f.time());
  annotation.time = time.value_or(Nanoseconds{});
  PLIMSOLL_TRY(device, f.device());
  annotations_.push_back(std::move(annotation));
  annotation_devices_.push_back(device);
  return PickleValue::object(kAnnotation, last_index(annotations_));
}

}  // namespace plimsoll
