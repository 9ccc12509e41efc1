// Finds the ids of things that are kept elsewhere, each once, by their hash: one array of places, open
// addressing, at most half full. Unlike std::unordered_multimap it has no allocation for each of millions of
// ids, and an id that isn't there is told without a look at anything else.
//
//   HashIndex index;
//   const auto is_same = [&](uint32_t id) { return texts[id] == text; };
//   if (const auto known = index.find(hash, is_same)) return *known;
//   index.add(hash, id);
//
// Invariant: an id's place is reached from its hash without an empty place on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll {

class HashIndex {
 public:
  template <typename IsSame>
  std::optional<uint32_t> find(uint64_t hash, const IsSame& is_same) const {
    if (places_.empty()) return std::nullopt;
    for (size_t at = home(hash) & mask(); places_[at].is_used; at = (at + 1) & mask())
      if (places_[at].hash == short_hash(hash) && is_same(places_[at].id)) return places_[at].id;
    return std::nullopt;
  }
  // REQUIRES it was not found.
  void add(uint64_t hash, uint32_t id) {
    if (2 * (size_ + 1) > places_.size()) grow();
    place({.is_used = 1, .hash = short_hash(hash), .home = home(hash), .id = id});
    ++size_;
  }

 private:
  struct Place {
    uint32_t is_used : 1 = 0;
    uint32_t hash : 31 = 0;
    uint32_t home = 0;  // where it belongs
    uint32_t id = 0;
  };

  static uint32_t short_hash(uint64_t hash) { return static_cast<uint32_t>(hash >> 33U); }
  static uint32_t home(uint64_t hash) { return static_cast<uint32_t>(hash ^ (hash >> 32U)); }
  size_t mask() const { return places_.size() - 1; }
  void place(const Place& p) {
    size_t at = p.home & mask();
    while (places_[at].is_used) at = (at + 1) & mask();
    places_[at] = p;
  }
  void grow() {
    std::vector<Place> before(places_.empty() ? 64 : 2 * places_.size());
    before.swap(places_);
    for (const Place& p : before)
      if (p.is_used) place(p);
  }

  std::vector<Place> places_;  // a power of two of them
  size_t size_ = 0;
};

}  // namespace plimsoll
