#include "allocator/free_index.h"

#include <algorithm>

namespace plimsoll {

// First slot whose entry is not before the key.
size_t FreeIndex::lower_slot(const std::vector<Entry>& entries, const Entry& key) {
  if (entries.size() <= 8) {
    size_t slot = 0;
    while (slot < entries.size() && is_before(entries[slot], key)) ++slot;
    return slot;
  }
  return static_cast<size_t>(std::lower_bound(entries.begin(), entries.end(), key, is_before) -
                             entries.begin());
}

FreeIndex::Position FreeIndex::front_of_bin_from(uint32_t bin) const {
  if (bin >= kBins) return end();
  uint32_t word = bin / 64;
  uint64_t bits = words_[word] & (~uint64_t{0} << (bin % 64));
  if (bits == 0) {
    const uint32_t later = word + 1 < 32 ? summary_ & (~uint32_t{0} << (word + 1)) : 0;
    if (later == 0) return end();
    word = static_cast<uint32_t>(std::countr_zero(later));
    bits = words_[word];
  }
  return {.bin = word * 64 + static_cast<uint32_t>(std::countr_zero(bits)), .slot = 0};
}

std::vector<FreeIndex::Entry> FreeIndex::entries() const {
  std::vector<Entry> all;
  for (Position at = begin(); at != end(); at = next(at)) all.push_back(this->at(at));
  return all;
}

}  // namespace plimsoll
