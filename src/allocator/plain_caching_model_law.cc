#include <algorithm>
#include <utility>

// The reference model's steps when memory is asked for.
#include "allocator/plain_caching_model.h"

namespace plimsoll {

constexpr uint64_t kOneMiB = 1 << 20;

// ---- sizes

// round_size, roundup_power2_next_division
uint64_t PlainCachingModel::rounded(uint64_t size) const {
  if (size < 512) return 512;
  size_t slot = 0;
  while (slot < 15 && size >= (kOneMiB << (slot + 1))) ++slot;
  const uint64_t divisions = settings_.roundup_power2_divisions[slot];
  if (divisions > 1 && size > 512 * divisions) {
    uint64_t power = 1;
    while (power * 2 <= size) power *= 2;
    uint64_t boundary = power;
    while (boundary < size) boundary += power / divisions;
    return boundary;
  }
  return (size + 511) / 512 * 512;
}

// get_pool: the capture that was begun last and takes the stream
PlainCachingModel::Ask PlainCachingModel::ask_of(uint64_t requested, HeapStream stream) const {
  PoolIndex pool = 0;
  for (const Capture& capture : captures_)
    if (!capture.only || *capture.only == stream) pool = capture.pool;
  const uint64_t size = rounded(requested);
  return {.requested = requested,
          .size = size,
          .home = {.pool = pool, .is_small = size <= kOneMiB, .stream = stream},
          .is_expandable = settings_.expandable_segments && !pools_[pool].options.has_own_allocator};
}

uint64_t PlainCachingModel::page_of(const Home& home) const {
  return home.is_small ? 2 * kOneMiB : static_cast<uint64_t>(settings_.large_segment_size.value);
}

uint64_t PlainCachingModel::max_split() const {
  return settings_.max_split_size ? static_cast<uint64_t>(settings_.max_split_size->value) : UINT64_MAX;
}

std::optional<uint64_t> PlainCachingModel::allowed() const {
  if (!settings_.per_process_memory_fraction || !device_.total_bytes()) return std::nullopt;
  return static_cast<uint64_t>(*settings_.per_process_memory_fraction *
                               static_cast<double>(device_.total_bytes()->value));
}

// ---- pools

PoolIndex PlainCachingModel::open_pool(PrivatePoolOptions options) {
  pools_.push_back({.options = options});
  return static_cast<PoolIndex>(pools_.size() - 1);
}
void PlainCachingModel::begin_pool(PoolIndex pool, std::optional<HeapStream> only) {
  ++pools_[pool].users;
  captures_.push_back({.pool = pool, .only = only});
}
void PlainCachingModel::end_pool(PoolIndex pool) {
  std::erase_if(captures_, [&](const Capture& capture) { return capture.pool == pool; });
  --pools_[pool].users;
}

// ---- malloc

std::optional<uint64_t> PlainCachingModel::alloc(uint64_t requested, HeapStream stream) {
  if (captures_.empty()) process_events(false);
  Ask ask = ask_of(requested, stream);
  std::optional<Place> found = search(ask);
  if (!found && is_gc_on()) collect_garbage();
  if (!found) found = from_device(ask);
  if (!found) found = from_pools_that_serve(ask);
  if (!found && release_oversize(ask)) found = from_device(ask);
  if (!found && captures_.empty()) {
    release_cached();
    ++retries_;
    found = from_device(ask);
  }
  if (!found) {
    ++ooms_;
    const Bytes device_free = device_.free_bytes().value_or(kUnlimitedDevice);
    log(AllocationAction::kOutOfMemory, static_cast<uint64_t>(device_free.value), ask.size, ask.home);
    return std::nullopt;
  }
  const uint64_t address = (*found)->first;
  hand_out(*found, ask);
  return address;
}

// The order of BlockComparatorSize, within one stream.
std::vector<PlainCachingModel::Place> PlainCachingModel::free_pieces(const Home& home) {
  std::vector<Place> all;
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece)
    if (piece->second.is_free() && piece->second.is_mapped && piece->second.home == home)
      all.push_back(piece);
  std::stable_sort(all.begin(), all.end(), [](Place a, Place b) { return a->second.size < b->second.size; });
  return all;
}
std::vector<PlainCachingModel::Place> PlainCachingModel::free_pieces_of_pool(PoolIndex pool, bool is_small) {
  std::set<HeapStream> streams;
  for (const auto& [address, piece] : pieces_) streams.insert(piece.home.stream);
  std::vector<Place> all;
  for (const HeapStream stream : streams)
    for (const Place piece : free_pieces({.pool = pool, .is_small = is_small, .stream = stream}))
      all.push_back(piece);
  return all;
}

// get_free_block
std::optional<PlainCachingModel::Place> PlainCachingModel::search(const Ask& ask) {
  if (is_gc_on()) ++searches_[{ask.home.pool, ask.home.is_small}];
  std::vector<Place> fitting = free_pieces(ask.home);
  std::erase_if(fitting, [&](Place piece) { return piece->second.size < ask.size; });
  if (!ask.is_expandable) std::erase_if(fitting, [](Place piece) { return piece->second.is_expandable; });
  if (fitting.empty()) return std::nullopt;
  size_t best = 0;
  while (fitting[best]->second.is_expandable && best + 1 < fitting.size() &&
         size_it_can_grow_to(fitting[best + 1]) < size_it_can_grow_to(fitting[best]))
    ++best;
  const uint64_t size = fitting[best]->second.size;
  const uint64_t slack = static_cast<uint64_t>(settings_.max_non_split_rounding.value);
  if (ask.size < max_split() && size >= max_split()) return std::nullopt;
  if (ask.size >= max_split() && size >= ask.size + slack) return std::nullopt;
  return fitting[best];
}
uint64_t PlainCachingModel::size_it_can_grow_to(Place piece) {
  const std::optional<Place> next = behind(piece);
  return piece->second.size + (next && !(*next)->second.is_mapped ? (*next)->second.size : 0);
}

// should_split
bool PlainCachingModel::should_split(const Ask& ask, uint64_t rest) const {
  if (pools_[ask.home.pool].options.never_splits) return false;
  if (ask.home.is_small || ask.is_expandable) return rest >= 512;
  return ask.size < max_split() && rest > kOneMiB;
}

// alloc_found_block
void PlainCachingModel::hand_out(Place piece, const Ask& ask) {
  const uint64_t rest = piece->second.size - ask.size;
  if (should_split(ask, rest)) {
    Piece tail = piece->second;
    tail.size = rest;
    tail.searches = searches_[{ask.home.pool, ask.home.is_small}];
    pieces_[piece->first + ask.size] = tail;
    piece->second.size = ask.size;
  }
  piece->second.is_live = true;
  piece->second.requested = ask.requested;
  log(AllocationAction::kAlloc, piece->first, ask.requested, ask.home);
}

// alloc_block
std::optional<PlainCachingModel::Place> PlainCachingModel::from_device(const Ask& ask) {
  uint64_t segment = 2 * kOneMiB;
  if (ask.size > kOneMiB) segment = static_cast<uint64_t>(settings_.large_segment_size.value);
  if (ask.size >= 10 * kOneMiB) segment = (ask.size + 2 * kOneMiB - 1) / (2 * kOneMiB) * (2 * kOneMiB);
  if (allowed() && reserved_ + segment > *allowed()) return std::nullopt;
  if (ask.is_expandable) return grow_expandable(ask);
  const std::optional<uint64_t> address = device_.allocate(segment);
  if (!address) return std::nullopt;
  reserved_ += segment;
  log(AllocationAction::kSegmentAlloc, *address, segment, ask.home);
  return pieces_.insert_or_assign(*address, Piece{.size = segment, .home = ask.home, .segment = *address})
      .first;
}

// try_mempool_fallback
std::optional<PlainCachingModel::Place> PlainCachingModel::from_pools_that_serve(Ask& ask) {
  if (ask.home.pool != 0) return std::nullopt;
  for (PoolIndex pool = 1; pool < pools_.size(); ++pool) {
    if (!pools_[pool].options.serves_when_full || pools_[pool].users == 0) continue;
    Ask there = ask;
    there.home.pool = pool;
    there.is_expandable = false;
    const std::optional<Place> found = search(there);
    if (!found) continue;
    ask = there;
    return found;
  }
  return std::nullopt;
}

// ---- expandable segments

// try_allocate_expandable_block
std::optional<PlainCachingModel::Place> PlainCachingModel::grow_expandable(const Ask& ask) {
  std::optional<Place> start = find_room(ask);
  if (!start) return std::nullopt;
  Place piece = *start;
  if (!piece->second.is_mapped && !map(piece, std::min(piece->second.size, ask.size))) return std::nullopt;
  while (piece->second.size < ask.size) {
    Place next = *behind(piece);
    if (!map(next, std::min(ask.size - piece->second.size, next->second.size))) return std::nullopt;
    piece = next;
  }
  return piece;
}

// find_expandable_block
std::optional<PlainCachingModel::Place> PlainCachingModel::find_room(const Ask& ask) {
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece) {
    if (piece->second.is_mapped || piece->second.home != ask.home) continue;
    std::optional<Place> start = before(piece);
    if (!start || !(*start)->second.is_free()) start = piece;
    uint64_t room = 0;
    for (std::optional<Place> at = start; at && (*at)->second.is_free(); at = behind(*at))
      room += (*at)->second.size;
    if (room >= ask.size) return start;
  }
  return reserve_range(ask);
}

std::optional<PlainCachingModel::Place> PlainCachingModel::reserve_range(const Ask& ask) {
  const uint64_t page = page_of(ask.home);
  const auto total = static_cast<uint64_t>(device_.total_bytes()->value);
  const uint64_t size = (total + total / 8 + page - 1) / page * page;
  if (size < ask.size) return std::nullopt;
  const std::optional<uint64_t> address = device_.reserve_addresses(size);
  if (!address) return std::nullopt;
  ranges_[*address] = {.size = size, .page = page};
  Piece piece{.size = size, .home = ask.home, .segment = *address};
  piece.is_mapped = false;
  piece.is_expandable = true;
  return pieces_.insert_or_assign(*address, piece).first;
}

// map_block; `piece` is then what has taken in the free neighbours
bool PlainCachingModel::map(Place& piece, uint64_t size) {
  const uint64_t page = ranges_.at(piece->second.segment).page;
  const uint64_t bytes = (size + page - 1) / page * page;
  if (!device_.map(piece->first, bytes)) return false;
  const uint64_t address = piece->first;
  if (bytes < piece->second.size) {
    Piece rest = piece->second;
    rest.size -= bytes;
    pieces_[address + bytes] = rest;
    piece->second.size = bytes;
  }
  piece->second.is_mapped = true;
  piece = merge(piece);
  reserved_ += bytes;
  log(AllocationAction::kSegmentMap, address, bytes, piece->second.home);
  return true;
}

// unmap_block: whole pages only
void PlainCachingModel::unmap(Place piece) {
  const uint64_t range = piece->second.segment;
  const uint64_t page = ranges_.at(range).page;
  const uint64_t begin = range + (piece->first - range + page - 1) / page * page;
  const uint64_t end = range + (piece->first + piece->second.size - range) / page * page;
  if (begin >= end) return;
  const Piece whole = piece->second;
  const uint64_t address = piece->first;
  const auto put = [&](uint64_t from, uint64_t to, bool is_mapped) {
    Piece part = whole;
    part.size = to - from;
    part.is_mapped = is_mapped;
    part.searches = searches_[{whole.home.pool, whole.home.is_small}];
    return from < to ? pieces_.insert_or_assign(from, part).first : pieces_.end();
  };
  put(address, begin, true);
  put(end, address + whole.size, true);
  const Place unmapped = merge(put(begin, end, false));
  reserved_ -= end - begin;
  log(AllocationAction::kSegmentUnmap, begin, end - begin, whole.home);
  device_.unmap(begin, end - begin);
  if (unmapped->second.size != ranges_.at(range).size) return;
  pieces_.erase(unmapped);  // release_expandable_segment
  ranges_.erase(range);
}

}  // namespace plimsoll
