#include "train/checkpoint_pieces.h"

#include <algorithm>

namespace plimsoll {
namespace {

// Of the whole's elements [begin, end), of an array that begins with the whole's element `origin`.
std::vector<Piece> pieces_between(const ArrayLayout& whole, int64_t begin, int64_t end, int64_t origin) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < whole.tensors.size(); ++i) {
    const native::UnitTensor& t = whole.tensors[i];
    const int64_t first = std::max(begin, t.offset), last = std::min(end, t.offset + t.elements);
    if (first >= last) continue;
    pieces.push_back({.tensor = i,
                      .parameter = t.parameter,
                      .begin = first - t.offset,
                      .elements = last - first,
                      .place = first - origin});
  }
  return pieces;
}

}  // namespace

std::vector<Piece> pieces_held(const ArrayLayout& whole, int64_t held, int64_t rank) {
  const int64_t begin = held == whole.elements ? 0 : rank * held;
  return pieces_between(whole, begin, begin + held, begin);
}

std::vector<Piece> pieces_written(const ArrayLayout& whole, int64_t held, int64_t rank, int64_t ranks) {
  if (held != whole.elements) return pieces_held(whole, held, rank);
  return pieces_between(whole, whole.elements * rank / ranks, whole.elements * (rank + 1) / ranks, 0);
}

}  // namespace plimsoll
