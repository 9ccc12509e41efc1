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
// gives them back in reverse, so both ends of its work are where an array is cheap. Of thousands of blocks in
// one bin the higher ones are cut into pieces, so that an array is never long to move.
//
// Invariant: a bin's entries are sorted by falling (size, address), those of its pieces before those of its
// lowest; no piece is empty, and the lowest only with the bin; a bit is set if and only if its bin has an
// entry. Not thread-safe. Sizes and addresses in bytes.
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
    uint32_t piece = 0;  // the lowest behind all pieces
    uint32_t slot = 0;
    friend bool operator==(Position, Position) = default;
  };

  // REQUIRES no entry with the same address is in the index.
  void insert(const Entry& entry) {
    const uint32_t bin = bin_of(entry.size);
    Bin& held = bins_[bin];
    if (held.lowest.empty()) {
      words_[bin / 64] |= uint64_t{1} << (bin % 64);
      summary_ |= uint32_t{1} << (bin / 64);
    }
    const uint32_t piece = piece_of(held, entry);
    Entries& entries = held.piece(piece);
    if (entries.empty() || is_before(entry, entries.back())) {
      entries.push_back(entry);
    } else {
      entries.insert(entries.begin() + slots_not_before(entries, entry), entry);
    }
    if (entries.size() > kLongest) cut(held, piece);
  }

  // REQUIRES such an entry is in the index.
  void erase(uint64_t size, uint64_t address) {
    const uint32_t bin = bin_of(size);
    const Entry key{.size = size, .address = address};
    const uint32_t piece = piece_of(bins_[bin], key);
    erase({.bin = bin, .piece = piece, .slot = slots_not_before(bins_[bin].piece(piece), key) - 1});
  }
  void erase(Position at) {
    Bin& held = bins_[at.bin];
    Entries& entries = held.piece(at.piece);
    if (at.slot + 1 == entries.size()) {
      entries.pop_back();
    } else {
      entries.erase(entries.begin() + at.slot);
    }
    if (!entries.empty()) return;
    if (!held.pieces.empty()) return drop_empty(held, at.piece);
    words_[at.bin / 64] &= ~(uint64_t{1} << (at.bin % 64));
    if (words_[at.bin / 64] == 0) summary_ &= ~(uint32_t{1} << (at.bin / 64));
  }

  // The smallest block of at least `size` bytes; end() if there is none.
  Position first_at_least(uint64_t size) const {
    const uint32_t bin = bin_of(size);
    const Bin& held = bins_[bin];
    if (held.lowest.empty() || held.piece(0).front().size < size) return first_of_bins_from(bin + 1);
    const Entry key{.size = size};
    const uint32_t piece = piece_of(held, key);
    return {.bin = bin, .piece = piece, .slot = slots_not_before(held.piece(piece), key) - 1};
  }
  Position begin() const { return first_of_bins_from(0); }
  static constexpr Position end() { return {.bin = kBins}; }
  // REQUIRES at != end().
  Position next(Position at) const {
    if (at.slot > 0) return {.bin = at.bin, .piece = at.piece, .slot = at.slot - 1};
    if (at.piece > 0) return last_of(at.bin, at.piece - 1);
    return first_of_bins_from(at.bin + 1);
  }
  const Entry& at(Position at) const { return bins_[at.bin].piece(at.piece)[at.slot]; }

  bool empty() const { return summary_ == 0; }
  // All entries in order: for the rare walks that change the index on the way.
  std::vector<Entry> entries() const;

 private:
  using Entries = std::vector<Entry>;
  struct Bin {
    Entries lowest;
    std::vector<Entries> pieces;

    Entries& piece(uint32_t at) { return at < pieces.size() ? pieces[at] : lowest; }
    const Entries& piece(uint32_t at) const { return at < pieces.size() ? pieces[at] : lowest; }
  };

  static constexpr size_t kLongest = 1024;         // of a piece, in entries
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

  // The last piece that begins with an entry not before the key, or the first one.
  static uint32_t piece_of(const Bin& bin, const Entry& key) {
    if (bin.pieces.empty()) return 0;
    return piece_of_many(bin, key);
  }
  static uint32_t piece_of_many(const Bin& bin, const Entry& key);
  static void cut(Bin& bin, uint32_t piece);
  static void drop_empty(Bin& bin, uint32_t piece);

  // How many entries of a piece are not before the key; they come first in its array.
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
  Position last_of(uint32_t bin, uint32_t piece) const {
    return {.bin = bin, .piece = piece, .slot = static_cast<uint32_t>(bins_[bin].piece(piece).size()) - 1};
  }

  std::array<Bin, kBins> bins_;
  std::array<uint64_t, kWords> words_{};
  uint32_t summary_ = 0;  // bit w: words_[w] != 0
};

}  // namespace plimsoll
