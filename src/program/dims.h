// Dims as operators are given them: negative ones count from the last.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace plimsoll {

constexpr int positive_dim(int dim, int rank) { return dim < 0 ? dim + rank : dim; }

// Bit d: dim d, as DimAttr has them.
constexpr uint32_t dim_mask(std::initializer_list<int> dims, int rank) {
  uint32_t mask = 0;
  for (int dim : dims) mask |= uint32_t{1} << static_cast<unsigned>(positive_dim(dim, rank));
  return mask;
}
constexpr uint32_t every_dim(int rank) { return (uint32_t{1} << static_cast<unsigned>(rank)) - 1; }

}  // namespace plimsoll
