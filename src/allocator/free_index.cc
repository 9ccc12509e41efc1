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
  return {.bin = found, .slot = static_cast<uint32_t>(bins_[found].size()) - 1};
}

std::vector<FreeIndex::Entry> FreeIndex::entries() const {
  std::vector<Entry> all;
  for (Position at = begin(); at != end(); at = next(at)) all.push_back(this->at(at));
  return all;
}

}  // namespace plimsoll
