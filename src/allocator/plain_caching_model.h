// The caching allocator in ordered sets and maps, slow and short: what the laws hold CachingHeap against.
// Default mode with max_split_size; no expandable segments, garbage collection, memory fraction or events of
// other streams. For tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "allocator/allocator_settings.h"
#include "allocator/device_memory.h"
#include "allocator/heap.h"

namespace plimsoll {

class PlainCachingModel {
 public:
  PlainCachingModel(const AllocatorSettings& settings, DeviceMemory& device)
      : settings_(settings), max_split_(UINT64_MAX), device_(device) {
    if (settings.max_split_size) max_split_ = static_cast<uint64_t>(settings.max_split_size->value);
  }

  // The address, or nothing when out of memory.
  std::optional<uint64_t> alloc(uint64_t requested, HeapStream stream) {
    const uint64_t size = settings_.round(requested);
    const bool is_small = size <= kSmallLimit;
    std::optional<Key> found = best_fit(size, stream, is_small);
    if (!found) found = from_device(size, stream, is_small);
    if (!found && release_oversize(size, stream, is_small)) found = from_device(size, stream, is_small);
    if (!found) {
      release_whole();
      found = from_device(size, stream, is_small);
    }
    if (!found) return std::nullopt;
    free_.erase(*found);
    Piece& piece = pieces_.at(found->address);
    piece.is_free = false;
    const uint64_t rest = piece.size - size;
    if (is_small ? rest >= kMinBlock : size < max_split_ && rest > kSmallLimit) {
      piece.size = size;
      add_free(found->address + size,
               {.size = rest, .segment = piece.segment, .stream = stream, .is_small = is_small});
    }
    return found->address;
  }

  void free(uint64_t address) {
    const auto at = pieces_.find(address);
    Piece merged = at->second;
    const auto next = std::next(at);
    if (next != pieces_.end() && next->second.is_free && next->second.segment == merged.segment) {
      merged.size += next->second.size;
      remove(next);
    }
    if (at != pieces_.begin()) {
      const auto before = std::prev(at);
      if (before->second.is_free && before->second.segment == merged.segment) {
        merged.size += before->second.size;
        address = before->first;
        remove(before);
      }
    }
    pieces_.erase(at);
    add_free(address, merged);
  }

 private:
  struct Piece {
    uint64_t size = 0;
    uint64_t segment = 0;  // address of its segment
    HeapStream stream = 0;
    bool is_small = false;
    bool is_free = true;
  };
  struct Key {
    bool is_small;
    HeapStream stream;
    uint64_t size;
    uint64_t address;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  using Pieces = std::map<uint64_t, Piece>;  // by address

  Key key_of(uint64_t address, const Piece& piece) const {
    return {.is_small = piece.is_small, .stream = piece.stream, .size = piece.size, .address = address};
  }
  void add_free(uint64_t address, Piece piece) {
    piece.is_free = true;
    pieces_[address] = piece;
    free_.insert(key_of(address, piece));
  }
  void remove(Pieces::iterator at) {
    free_.erase(key_of(at->first, at->second));
    pieces_.erase(at);
  }
  bool is_whole(const Key& key) const { return segments_.at(pieces_.at(key.address).segment) == key.size; }

  std::optional<Key> best_fit(uint64_t size, HeapStream stream, bool is_small) const {
    const auto at = free_.lower_bound({.is_small = is_small, .stream = stream, .size = size, .address = 0});
    if (at == free_.end() || at->is_small != is_small || at->stream != stream) return std::nullopt;
    const uint64_t slack = static_cast<uint64_t>(settings_.max_non_split_rounding.value);
    if (size < max_split_ ? at->size >= max_split_ : at->size >= size + slack) return std::nullopt;
    return *at;
  }
  std::optional<Key> from_device(uint64_t size, HeapStream stream, bool is_small) {
    const uint64_t segment =
        segment_size_for(size, static_cast<uint64_t>(settings_.large_segment_size.value));
    const std::optional<uint64_t> address = device_.allocate(segment);
    if (!address) return std::nullopt;
    segments_[*address] = segment;
    const Piece piece{.size = segment, .segment = *address, .stream = stream, .is_small = is_small};
    add_free(*address, piece);
    return key_of(*address, piece);
  }
  void release(Key key) {
    device_.release(key.address, key.size);
    segments_.erase(key.address);
    remove(pieces_.find(key.address));
  }
  // The large pool's segments go first, stream by stream from small to large.
  void release_whole() {
    for (const bool is_small : {false, true}) {
      const std::set<Key> keys = free_;
      for (const Key& key : keys) {
        if (key.is_small == is_small && is_whole(key)) release(key);
      }
    }
  }
  bool release_oversize(uint64_t size, HeapStream stream, bool is_small) {
    if (!settings_.max_split_size) return false;
    const uint64_t wanted = std::max(size, max_split_);
    uint64_t released = 0;
    std::set<Key> keys;  // of the stream, oversize
    for (const Key& key : free_) {
      if (key.is_small == is_small && key.stream == stream && key.size >= max_split_) keys.insert(key);
    }
    for (const Key& key : keys) {
      if (key.size < wanted) continue;
      release(key);
      return true;
    }
    for (auto key = keys.rbegin(); key != keys.rend() && released < wanted; ++key) {
      released += key->size;
      release(*key);
    }
    return released >= wanted;
  }

  AllocatorSettings settings_;
  uint64_t max_split_;
  DeviceMemory& device_;
  Pieces pieces_;
  std::set<Key> free_;
  std::map<uint64_t, uint64_t> segments_;  // address to size
};

}  // namespace plimsoll
