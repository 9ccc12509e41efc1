// Sizes and strides of a dense tensor, in elements, as ATen keeps them. Strides matter to memory: they decide
// whether a reshape is a view or a copy, what a pointwise result looks like, and whether a gradient can be
// kept as it is.
//
//   Layout q = Layout::contiguous({b, s, heads, d}).transposed(1, 2);   // [b, heads, s, d], not contiguous
//
// Source: c10/core/TensorImpl, aten/src/ATen/TensorUtils.cpp (computeStride),
// aten/src/ATen/TensorIterator.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

namespace plimsoll {

inline constexpr int kMaxRank = 6;

struct Layout {
  int8_t rank = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<int64_t, kMaxRank> strides{};

  static Layout contiguous(std::span<const int64_t> sizes);
  static Layout contiguous(std::initializer_list<int64_t> sizes) {
    return contiguous(std::span<const int64_t>(sizes.begin(), sizes.size()));
  }

  int64_t size(int dim) const { return sizes[static_cast<size_t>(dim < 0 ? dim + rank : dim)]; }
  int64_t stride(int dim) const { return strides[static_cast<size_t>(dim < 0 ? dim + rank : dim)]; }
  std::span<const int64_t> shape() const { return {sizes.data(), static_cast<size_t>(rank)}; }
  int64_t elements() const;  // saturated, see base/units.h

  bool is_contiguous() const;
  bool is_dense() const;  // non-overlapping and dense: some permutation of it is contiguous
  bool has_shape_of(const Layout& other) const;

  // REQUIRES valid dims. All are views of the same storage.
  Layout transposed(int a, int b) const;
  Layout permuted(std::span<const int> order) const;
  Layout unsqueezed(int dim) const;
  Layout squeezed(int dim) const;  // REQUIRES size(dim) == 1
  Layout selected(int dim) const;  // one index of dim
  Layout sliced(int dim, int64_t length, int64_t step = 1) const;
  Layout expanded(std::span<const int64_t> sizes) const;  // leading dims may be added
  // The view with other sizes, or nothing when it needs a copy.
  std::optional<Layout> viewed(std::span<const int64_t> sizes) const;

  // What empty_like(preserve_format) gives: the same strides when dense, else strides in the same order
  // without gaps.
  Layout like() const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

// Sizes with one -1 replaced so that the product is `elements`. REQUIRES that it divides.
Layout inferred(std::span<const int64_t> sizes, int64_t elements);

// The result of a pointwise operator on these operands: broadcast sizes, and strides as TensorIterator
// chooses them.
Layout pointwise_layout(std::span<const Layout* const> operands);

// The result of a reduction over the dims in `mask` (bit i = dim i). Source: make_reduction, which keeps dims
// as size 1.
Layout reduced(const Layout& input, unsigned mask, bool keep_dims);

}  // namespace plimsoll
