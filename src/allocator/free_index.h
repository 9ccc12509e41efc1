// The free blocks of one pool and stream in the order (size, address), for best fit with the lowest address
// as tie-break: the order of the std::set in PyTorch's allocator, in flat memory.
//
// Sizes fall into bins, sixteen to each power of two; a bin is a short sorted array, a bitmap says which bins
// hold anything:
//
//   bitmap   0 0 1 0 1 ...         first_at_least(size): look in the size's own bin, then take the first of
//   the bins         |   +- [9728 @c]  next bin that has one
//                +- [9216 @b, 9216 @a]
//
// A bin's array runs backwards, its first block at the end: a step takes the lowest of many equal blocks and
// gives them back in reverse, so both ends of its work are where an array is cheap.
//
// Invariant: a bin's entries are sorted by falling (size, address); a bit is set if and only if its bin has
// an entry. Not thread-safe. Sizes and addresses in bytes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

class FreeIndex {
 public:
  struct Entry {
    uint64_t size = 0;
    uint64_t address = 0;
    uint32_t block = 0;
  };
  // A place in the order. Valid until the next insert or erase.
  struct Position {
    uint32_t bin = 0;
    uint32_t slot = 0;
    friend bool operator==(Position, Position) = default;
  };

  // REQUIRES no entry with the same address is in the index.
  void insert(const Entry& entry) {
    const uint32_t bin = bin_of(entry.size);
    std::vector<Entry>& entries = bins_[bin];
    if (entries.empty()) {
      words_[bin / 64] |= uint64_t{1} << (bin % 64);
      summary_ |= uint32_t{1} << (bin / 64);
    }
    if (entries.empty() || is_before(entry, entries.back())) {
      entries.push_back(entry);
    } else {
      entries.insert(entries.begin() + slots_not_before(entries, entry), entry);
    }
  }

  // REQUIRES such an entry is in the index.
  void erase(uint64_t size, uint64_t address) {
    const uint32_t bin = bin_of(size);
    erase({.bin = bin, .slot = slots_not_before(bins_[bin], {.size = size, .address = address}) - 1});
  }
  void erase(Position at) {
    std::vector<Entry>& entries = bins_[at.bin];
    if (at.slot + 1 == entries.size()) {
      entries.pop_back();
    } else {
      entries.erase(entries.begin() + at.slot);
    }
    if (!entries.empty()) return;
    words_[at.bin / 64] &= ~(uint64_t{1} << (at.bin % 64));
    if (words_[at.bin / 64] == 0) summary_ &= ~(uint32_t{1} << (at.bin / 64));
  }

  // The smallest block of at least `size` bytes; end() if there is none.
  Position first_at_least(uint64_t size) const {
    const uint32_t bin = bin_of(size);
    const std::vector<Entry>& entries = bins_[bin];
    if (!entries.empty() && entries.front().size >= size) {
      return {.bin = bin, .slot = slots_not_before(entries, {.size = size}) - 1};
    }
    return first_of_bins_from(bin + 1);
  }
  Position begin() const { return first_of_bins_from(0); }
  static constexpr Position end() { return {.bin = kBins, .slot = 0}; }
  // REQUIRES at != end().
  Position next(Position at) const {
    if (at.slot > 0) return {.bin = at.bin, .slot = at.slot - 1};
    return first_of_bins_from(at.bin + 1);
  }
  const Entry& at(Position at) const { return bins_[at.bin][at.slot]; }

  bool empty() const { return summary_ == 0; }
  // All entries in order: for the rare walks that change the index on the way.
  std::vector<Entry> entries() const;

 private:
  static constexpr uint32_t kStepBits = 4;         // 16 bins to a power of two
  static constexpr uint32_t kBins = 16 + 16 * 52;  // up to 2^64 bytes in units of 512
  static constexpr uint32_t kWords = (kBins + 63) / 64;

  static uint32_t bin_of(uint64_t size) {
    const uint64_t units = size >> 9;
    if (units < 16) return static_cast<uint32_t>(units);
    const uint32_t log = static_cast<uint32_t>(std::bit_width(units)) - 1;
    const uint32_t step = static_cast<uint32_t>(units >> (log - kStepBits)) & 15;
    return 16 + (log - kStepBits) * 16 + step;
  }
  static bool is_before(const Entry& a, const Entry& b) {
    return a.size != b.size ? a.size < b.size : a.address < b.address;
  }

  // How many entries of a bin are not before the key; they come first in its array.
  static uint32_t slots_not_before(const std::vector<Entry>& entries, const Entry& key) {
    size_t slots = entries.size();
    for (int near = 0; near < 4; ++near) {  // the last few are the likely ones
      if (slots == 0 || !is_before(entries[slots - 1], key)) return static_cast<uint32_t>(slots);
      --slots;
    }
    const auto end = entries.begin() + static_cast<std::ptrdiff_t>(slots);
    const auto found = std::partition_point(entries.begin(), end,
                                            [&](const Entry& entry) { return !is_before(entry, key); });
    return static_cast<uint32_t>(found - entries.begin());
  }

  Position first_of_bins_from(uint32_t bin) const;

  std::array<std::vector<Entry>, kBins> bins_;
  std::array<uint64_t, kWords> words_{};
  uint32_t summary_ = 0;  // bit w: words_[w] != 0
};

}  // namespace plimsoll
