#include "allocator/free_index.h"

namespace plimsoll {

FreeIndex::Position FreeIndex::first_of_bins_from(uint32_t bin) const {
  if (bin >= kBins) return end();
  uint32_t word = bin / 64;
  uint64_t bits = words_[word] & (~uint64_t{0} << (bin % 64));
  if (bits == 0) {
    const uint32_t later = summary_ & (~uint32_t{0} << word) & ~(uint32_t{1} << word);
    if (later == 0) return end();
    word = static_cast<uint32_t>(std::countr_zero(later));
    bits = words_[word];
  }
  const uint32_t found = word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  return last_of(found, static_cast<uint32_t>(bins_[found].pieces.size()));
}

uint32_t FreeIndex::piece_of_many(const Bin& bin, const Entry& key) {
  const auto lowest = static_cast<uint32_t>(bin.pieces.size());
  if (!is_before(bin.lowest.front(), key)) return lowest;
  const auto behind = std::partition_point(bin.pieces.begin(), bin.pieces.end(), [&](const Entries& piece) {
    return !is_before(piece.front(), key);
  });
  return behind == bin.pieces.begin() ? 0 : static_cast<uint32_t>(behind - bin.pieces.begin()) - 1;
}

// In two; the lower half takes the place behind.
void FreeIndex::cut(Bin& bin, uint32_t piece) {
  Entries& entries = bin.piece(piece);
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() / 2);
  Entries higher(entries.begin(), middle);
  entries.erase(entries.begin(), middle);
  bin.pieces.insert(bin.pieces.begin() + piece, std::move(higher));
}

// REQUIRES there are pieces beside the lowest.
void FreeIndex::drop_empty(Bin& bin, uint32_t piece) {
  if (piece < bin.pieces.size()) {
    bin.pieces.erase(bin.pieces.begin() + piece);
  } else {
    bin.lowest = std::move(bin.pieces.back());
    bin.pieces.pop_back();
  }
}

std::vector<FreeIndex::Entry> FreeIndex::entries() const {
  std::vector<Entry> all;
  for (Position at = begin(); at != end(); at = next(at)) all.push_back(this->at(at));
  return all;
}

}  // namespace plimsoll
