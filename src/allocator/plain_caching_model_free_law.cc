// The reference model's steps when blocks are freed and memory is given back.
#include <algorithm>
#include <utility>

#include "allocator/plain_caching_model.h"

namespace plimsoll {

// ---- free

std::optional<PlainCachingModel::Place> PlainCachingModel::before(Place piece) {
  if (piece == pieces_.begin() || std::prev(piece)->second.segment != piece->second.segment)
    return std::nullopt;
  return std::prev(piece);
}
std::optional<PlainCachingModel::Place> PlainCachingModel::behind(Place piece) {
  const Place next = std::next(piece);
  if (next == pieces_.end() || next->second.segment != piece->second.segment) return std::nullopt;
  return next;
}

// try_merge_blocks, both ways; then insert_into_blocks
PlainCachingModel::Place PlainCachingModel::merge(Place piece) {
  const auto joins = [&](std::optional<Place> other) {
    return other && (*other)->second.is_free() && (*other)->second.is_mapped == piece->second.is_mapped;
  };
  if (const auto next = behind(piece); joins(next)) {
    piece->second.size += (*next)->second.size;
    pieces_.erase(*next);
  }
  if (const auto previous = before(piece); joins(previous)) {
    (*previous)->second.size += piece->second.size;
    pieces_.erase(piece);
    piece = *previous;
  }
  piece->second.searches = searches_[{piece->second.home.pool, piece->second.home.is_small}];
  return piece;
}

void PlainCachingModel::free(uint64_t address) {
  Piece& piece = pieces_.at(address);
  piece.is_live = false;
  log(AllocationAction::kFreeRequested, address, piece.requested, piece.home);
  if (piece.uses.empty()) return put_back(address);
  if (!captures_.empty())
    freed_in_capture_.push_back(address);
  else
    insert_events(address);
}

// free_block
void PlainCachingModel::put_back(uint64_t address) {
  const Place piece = pieces_.find(address);
  log(AllocationAction::kFreeCompleted, address, piece->second.requested, piece->second.home);
  piece->second.uses_in_capture.clear();
  merge(piece);
}

void PlainCachingModel::record_stream(uint64_t address, HeapStream stream) {
  Piece& piece = pieces_.at(address);
  if (stream == piece.home.stream) return;
  piece.uses.insert(stream);
  if (!captures_.empty()) piece.uses_in_capture.insert(stream);
}

void PlainCachingModel::insert_events(uint64_t address) {
  Piece& piece = pieces_.at(address);
  for (const HeapStream stream : piece.uses) {
    outstanding_[stream].push_back({.passes_at = clock_.busy_until(stream).value, .address = address});
    ++piece.outstanding;
  }
  piece.uses.clear();
}

// insert_events_deferred_until_no_capture
void PlainCachingModel::insert_deferred_events() {
  for (const uint64_t address : std::exchange(freed_in_capture_, {})) {
    Piece& piece = pieces_.at(address);
    for (const HeapStream stream : piece.uses_in_capture) piece.uses.erase(stream);
    insert_events(address);
    if (piece.outstanding == 0) put_back(address);
  }
}

// process_events; synchronize_and_free_events when it waits
void PlainCachingModel::process_events(bool waits) {
  insert_deferred_events();
  for (auto& [stream, queue] : outstanding_)
    while (!queue.empty() && (waits || queue.front().passes_at <= clock_.now().value)) {
      const uint64_t address = queue.front().address;
      queue.erase(queue.begin());
      if (--pieces_.at(address).outstanding == 0) put_back(address);
    }
}

// ---- giving back

// garbage_collect_cached_blocks
void PlainCachingModel::collect_garbage() {
  const auto threshold =
      static_cast<uint64_t>(settings_.garbage_collection_threshold * static_cast<double>(*allowed()));
  if (reserved_ <= threshold) return;
  const uint64_t target = reserved_ - threshold;
  uint64_t reclaimed = 0;
  while (reclaimed < target) {
    std::vector<Place> whole = free_pieces_of_pool(0, false);
    std::erase_if(whole, [&](Place piece) { return !is_whole(piece) || piece->second.is_expandable; });
    const auto age = [&](Place piece) { return searches_[{0, false}] - piece->second.searches; };
    double total = 0;
    for (const Place piece : whole) total += static_cast<double>(age(piece));
    const double mean = total / static_cast<double>(whole.size());
    if (whole.empty()) return;
    for (const Place piece : whole) {
      if (static_cast<double>(age(piece)) < mean) continue;
      reclaimed += piece->second.size;
      release(piece);
    }
  }
}

// release_available_cached_blocks
bool PlainCachingModel::release_oversize(const Ask& ask) {
  if (!settings_.max_split_size) return false;
  const uint64_t wanted = std::max(ask.size, max_split());
  std::vector<Place> smaller = free_pieces(ask.home);
  for (const Place piece : smaller) {
    if (piece->second.size < wanted) continue;
    if (piece->second.is_expandable) break;
    release(piece);
    return true;
  }
  std::erase_if(smaller, [&](Place piece) { return piece->second.size >= wanted; });
  uint64_t released = 0;
  for (auto piece = smaller.rbegin(); piece != smaller.rend() && released < wanted; ++piece) {
    if ((*piece)->second.size < max_split()) break;
    if ((*piece)->second.is_expandable) continue;
    released += (*piece)->second.size;
    release(*piece);
  }
  return released >= wanted;
}

// release_cached_blocks
void PlainCachingModel::release_cached() {
  if (captures_.empty()) {
    process_events(true);
    release_all(0, false);
    release_all(0, true);
  }
  for (PoolIndex pool = 1; pool < pools_.size(); ++pool) {
    if (pools_[pool].users > 0) continue;
    release_all(pool, true);
    release_all(pool, false);
  }
}

// release_blocks
void PlainCachingModel::release_all(PoolIndex pool, bool is_small) {
  const std::vector<Place> all = free_pieces_of_pool(pool, is_small);
  std::vector<uint64_t> expandable;
  for (const Place piece : all) {
    if (piece->second.is_expandable)
      expandable.push_back(piece->first);
    else if (is_whole(piece))
      release(piece);
  }
  for (const uint64_t address : expandable) unmap(pieces_.find(address));
}

// release_block
void PlainCachingModel::release(Place piece) {
  log(AllocationAction::kSegmentFree, piece->first, piece->second.size, piece->second.home);
  device_.release(piece->first, piece->second.size);
  reserved_ -= piece->second.size;
  pieces_.erase(piece);
}

void PlainCachingModel::log(AllocationAction action, uint64_t address, uint64_t bytes, const Home& home) {
  events_.push_back({.action = action,
                     .pool = home.pool,
                     .address = address,
                     .bytes = Bytes{static_cast<int64_t>(bytes)},
                     .stream = home.stream});
}

}  // namespace plimsoll
