// Which elements of which parameters a rank holds of a unit's arrays (masters, optimizer states), and which
// of them it writes into a checkpoint. Arrays are laid out as the unit (frameworks/native/units.h), or as
// what the optimizer keeps of it (frameworks/native/optimizers.h); pieces are counted within parameters, so
// padding is left out and another number of ranks finds what it needs.
//
//   unit      q_proj | pad | k_proj | pad        rank 0 holds [0, half), rank 1 the rest
//   pieces    rank 0: q_proj [0, n), k_proj [0, m)     rank 1: k_proj [m, end)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "frameworks/native/units.h"

namespace plimsoll {

// The stretches of a whole array, and how many elements it has with padding.
struct ArrayLayout {
  std::span<const native::UnitTensor> tensors;
  int64_t elements = 0;
};

struct Piece {
  size_t tensor = 0;                // index into ArrayLayout::tensors
  size_t parameter = 0;             // index into Architecture::parameters
  int64_t begin = 0, elements = 0;  // of the tensor
  int64_t place = 0;                // in the rank's array

  friend bool operator==(const Piece&, const Piece&) = default;
};

// `held` is how many elements the rank's array has: the whole or one of `ranks` even parts.
// REQUIRES held == whole.elements or held x ranks == whole.elements.
std::vector<Piece> pieces_held(const ArrayLayout& whole, int64_t held, int64_t rank);
// Where every rank holds the whole, each writes an even part of it: every element is written once.
std::vector<Piece> pieces_written(const ArrayLayout& whole, int64_t held, int64_t rank, int64_t ranks);

}  // namespace plimsoll
