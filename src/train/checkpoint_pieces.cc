#include "train/checkpoint_pieces.h"

#include <algorithm>

namespace plimsoll {
namespace {

// Of the unit's elements [begin, end), of an array that begins with the unit's element `origin`.
std::vector<Piece> pieces_between(const native::Unit& unit, int64_t begin, int64_t end, int64_t origin) {
  std::vector<Piece> pieces;
  for (const native::UnitTensor& t : unit.tensors) {
    const int64_t first = std::max(begin, t.offset), last = std::min(end, t.offset + t.elements);
    if (first >= last) continue;
    pieces.push_back({.parameter = t.parameter,
                      .begin = first - t.offset,
                      .elements = last - first,
                      .place = first - origin});
  }
  return pieces;
}

}  // namespace

std::vector<Piece> pieces_held(const native::Unit& unit, int64_t held, int64_t rank) {
  const int64_t begin = held == unit.elements ? 0 : rank * held;
  return pieces_between(unit, begin, begin + held, begin);
}

std::vector<Piece> pieces_written(const native::Unit& unit, int64_t held, int64_t rank, int64_t ranks) {
  if (held != unit.elements) return pieces_held(unit, held, rank);
  return pieces_between(unit, unit.elements * rank / ranks, unit.elements * (rank + 1) / ranks, 0);
}

}  // namespace plimsoll
