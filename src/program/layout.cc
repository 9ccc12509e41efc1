#include "program/layout.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "base/units.h"

namespace plimsoll {
namespace {

size_t at(int dim, int rank) { return static_cast<size_t>(dim < 0 ? dim + rank : dim); }

void insert_dim(Layout& layout, size_t where, int64_t size, int64_t stride) {
  assert(layout.rank < kMaxRank);
  for (size_t i = static_cast<size_t>(layout.rank); i > where; --i) {
    layout.sizes[i] = layout.sizes[i - 1];
    layout.strides[i] = layout.strides[i - 1];
  }
  layout.sizes[where] = size;
  layout.strides[where] = stride;
  ++layout.rank;
}

void erase_dim(Layout& layout, size_t where) {
  for (size_t i = where; i + 1 < static_cast<size_t>(layout.rank); ++i) {
    layout.sizes[i] = layout.sizes[i + 1];
    layout.strides[i] = layout.strides[i + 1];
  }
  --layout.rank;
  layout.sizes[static_cast<size_t>(layout.rank)] = 0;
  layout.strides[static_cast<size_t>(layout.rank)] = 0;
}

// Strides of dense storage whose dims, fastest first, are order[0..rank).
void assign_strides(Layout& layout, std::span<const int> order) {
  int64_t stride = 1;
  for (int dim : order) {
    layout.strides[static_cast<size_t>(dim)] = stride;
    stride = saturating_multiply(stride, std::max<int64_t>(layout.sizes[static_cast<size_t>(dim)], 1));
  }
}

}  // namespace

Layout Layout::contiguous(std::span<const int64_t> sizes) {
  assert(sizes.size() <= kMaxRank);
  Layout layout;
  layout.rank = static_cast<int8_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), layout.sizes.begin());
  int64_t stride = 1;
  for (int i = layout.rank - 1; i >= 0; --i) {
    layout.strides[static_cast<size_t>(i)] = stride;
    stride = saturating_multiply(stride, std::max<int64_t>(layout.sizes[static_cast<size_t>(i)], 1));
  }
  return layout;
}

int64_t Layout::elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank; ++i) n = saturating_multiply(n, sizes[static_cast<size_t>(i)]);
  return n;
}

bool Layout::is_contiguous() const {
  int64_t expected = 1;
  for (int i = rank - 1; i >= 0; --i) {
    const auto dim = static_cast<size_t>(i);
    if (sizes[dim] == 1) continue;
    if (strides[dim] != expected) return false;
    expected = saturating_multiply(expected, sizes[dim]);
  }
  return true;
}

bool Layout::is_dense() const {
  std::array<int, kMaxRank> order{};
  std::iota(order.begin(), order.begin() + rank, 0);
  std::sort(order.begin(), order.begin() + rank, [&](int a, int b) {
    const bool small_a = sizes[static_cast<size_t>(a)] < 2, small_b = sizes[static_cast<size_t>(b)] < 2;
    if (small_a || small_b) return !small_a && small_b;
    return strides[static_cast<size_t>(a)] < strides[static_cast<size_t>(b)];
  });
  int64_t expected = 1;
  for (int i = 0; i < rank; ++i) {
    const auto dim = static_cast<size_t>(order[static_cast<size_t>(i)]);
    if (sizes[dim] < 2) return true;
    if (strides[dim] != expected) return false;
    expected = saturating_multiply(expected, sizes[dim]);
  }
  return true;
}

bool Layout::has_shape_of(const Layout& other) const { return rank == other.rank && sizes == other.sizes; }

Layout Layout::transposed(int a, int b) const {
  Layout result = *this;
  std::swap(result.sizes[at(a, rank)], result.sizes[at(b, rank)]);
  std::swap(result.strides[at(a, rank)], result.strides[at(b, rank)]);
  return result;
}

Layout Layout::permuted(std::span<const int> order) const {
  assert(order.size() == static_cast<size_t>(rank));
  Layout result = *this;
  for (size_t i = 0; i < order.size(); ++i) {
    result.sizes[i] = sizes[at(order[i], rank)];
    result.strides[i] = strides[at(order[i], rank)];
  }
  return result;
}

Layout Layout::unsqueezed(int dim) const {
  Layout result = *this;
  const size_t where = at(dim, rank + 1);
  const int64_t stride =
      where >= static_cast<size_t>(rank) ? 1 : saturating_multiply(sizes[where], strides[where]);
  insert_dim(result, where, 1, stride);
  return result;
}

Layout Layout::squeezed(int dim) const {
  assert(size(dim) == 1);
  return selected(dim);
}

Layout Layout::selected(int dim) const {
  Layout result = *this;
  erase_dim(result, at(dim, rank));
  return result;
}

Layout Layout::sliced(int dim, int64_t length, int64_t step) const {
  Layout result = *this;
  result.sizes[at(dim, rank)] = length;
  result.strides[at(dim, rank)] = saturating_multiply(strides[at(dim, rank)], step);
  return result;
}

Layout Layout::expanded(std::span<const int64_t> target) const {
  Layout result;
  result.rank = static_cast<int8_t>(target.size());
  if (rank == 0) {  // inferExpandGeometry: no dim has a stride
    for (size_t i = 0; i < target.size(); ++i) result.sizes[i] = std::max<int64_t>(target[i], 1);
    return result;
  }
  const int added = result.rank - rank;
  for (int i = result.rank - 1; i >= 0; --i) {
    const auto to = static_cast<size_t>(i);
    const int from = i - added;
    const int64_t old_size = from >= 0 ? sizes[static_cast<size_t>(from)] : 1;
    const int64_t wanted = target[to] < 0 ? old_size : target[to];
    result.sizes[to] = wanted;
    const bool is_broadcast = old_size == 1 && wanted != 1;
    if (from >= 0) {
      result.strides[to] = is_broadcast ? 0 : strides[static_cast<size_t>(from)];
    } else {
      result.strides[to] = wanted != 1 ? 0
                           : i + 1 < result.rank
                               ? saturating_multiply(result.sizes[to + 1], result.strides[to + 1])
                               : 1;
    }
  }
  return result;
}

std::optional<Layout> Layout::viewed(std::span<const int64_t> target) const {
  Layout result = inferred(target, elements());
  if (result.elements() == 0) return result;
  // Source: at::detail::computeStride_impl.
  int view_dim = result.rank - 1;
  int64_t chunk_base_stride = rank > 0 ? strides[static_cast<size_t>(rank - 1)] : 1;
  int64_t tensor_numel = 1, view_numel = 1;
  for (int tensor_dim = rank - 1; tensor_dim >= 0; --tensor_dim) {
    tensor_numel = saturating_multiply(tensor_numel, sizes[static_cast<size_t>(tensor_dim)]);
    const bool ends_chunk = tensor_dim == 0 || (sizes[static_cast<size_t>(tensor_dim - 1)] != 1 &&
                                                strides[static_cast<size_t>(tensor_dim - 1)] !=
                                                    saturating_multiply(tensor_numel, chunk_base_stride));
    if (!ends_chunk) continue;
    while (view_dim >= 0 && (view_numel < tensor_numel || result.sizes[static_cast<size_t>(view_dim)] == 1)) {
      result.strides[static_cast<size_t>(view_dim)] = saturating_multiply(view_numel, chunk_base_stride);
      view_numel = saturating_multiply(view_numel, result.sizes[static_cast<size_t>(view_dim)]);
      --view_dim;
    }
    if (view_numel != tensor_numel) return std::nullopt;
    if (tensor_dim > 0) {
      chunk_base_stride = strides[static_cast<size_t>(tensor_dim - 1)];
      tensor_numel = 1;
      view_numel = 1;
    }
  }
  if (view_dim != -1) {
    if (rank > 0) return std::nullopt;
    for (; view_dim >= 0; --view_dim) result.strides[static_cast<size_t>(view_dim)] = 1;
  }
  return result;
}

Layout Layout::like() const {
  if (is_dense()) return *this;
  const Layout* self = this;
  return pointwise_layout({&self, 1});
}

Layout inferred(std::span<const int64_t> sizes, int64_t elements) {
  std::array<int64_t, kMaxRank> filled{};
  int64_t known = 1;
  for (int64_t size : sizes)
    if (size >= 0) known = saturating_multiply(known, size);
  for (size_t i = 0; i < sizes.size(); ++i)
    filled[i] = sizes[i] >= 0 ? sizes[i] : elements / std::max<int64_t>(known, 1);
  return Layout::contiguous({filled.data(), sizes.size()});
}

namespace {

struct Operand {
  std::array<int64_t, kMaxRank> strides{};  // 0 where broadcast
};

// >0: dim a should come after b (a is slower), <0: before, 0: undecided. Source:
// TensorIteratorBase::reorder_dimensions.
int compare_dims(std::span<const Operand> operands, const Layout& result, int a, int b) {
  for (const Operand& operand : operands) {
    const int64_t stride_a = operand.strides[static_cast<size_t>(a)];
    const int64_t stride_b = operand.strides[static_cast<size_t>(b)];
    if (stride_a == 0 || stride_b == 0) continue;
    if (stride_a != stride_b) return stride_a < stride_b ? -1 : 1;
    if (result.sizes[static_cast<size_t>(a)] > result.sizes[static_cast<size_t>(b)]) return 1;
  }
  return 0;
}

// Broadcast sizes, contiguous.
Layout broadcast(std::span<const Layout* const> operands) {
  int rank = 0;
  for (const Layout* operand : operands) rank = std::max<int>(rank, operand->rank);
  std::array<int64_t, kMaxRank> sizes{};
  std::fill(sizes.begin(), sizes.begin() + rank, int64_t{1});
  for (const Layout* operand : operands)
    for (int i = 0; i < operand->rank; ++i) {
      int64_t& size = sizes[static_cast<size_t>(i + rank - operand->rank)];
      if (size == 1) size = operand->sizes[static_cast<size_t>(i)];
    }
  return Layout::contiguous({sizes.data(), static_cast<size_t>(rank)});
}

Operand broadcast_to(const Layout& result, const Layout& operand) {
  Operand strides;
  for (int i = 0; i < operand.rank; ++i) {
    const auto from = static_cast<size_t>(i), to = static_cast<size_t>(i + result.rank - operand.rank);
    const bool is_broadcast = operand.sizes[from] == 1 && result.sizes[to] != 1;
    strides.strides[to] = is_broadcast ? 0 : operand.strides[from];
  }
  return strides;
}

// Dims from the fastest to the slowest: an insertion sort that leaves undecided ones as they were.
std::array<int, kMaxRank> order_of_dims(std::span<const Operand> operands, const Layout& result) {
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < result.rank; ++i) order[static_cast<size_t>(i)] = result.rank - 1 - i;
  for (int i = 1; i < result.rank; ++i) {
    auto moving = static_cast<size_t>(i);
    for (int k = i - 1; k >= 0; --k) {
      const auto before = static_cast<size_t>(k);
      const int comparison = compare_dims(operands, result, order[before], order[moving]);
      if (comparison < 0) break;
      if (comparison > 0) {
        std::swap(order[before], order[moving]);
        moving = before;
      }
    }
  }
  return order;
}

constexpr size_t kMostOperands = 8;

}  // namespace

Layout pointwise_layout(std::span<const Layout* const> operands) {
  assert(!operands.empty() && operands.size() <= kMostOperands);
  const Layout& first = *operands[0];
  bool same_shape = true, all_contiguous = true, same_strides = true;
  for (const Layout* operand : operands) {
    same_shape = same_shape && operand->has_shape_of(first);
    same_strides = same_strides && operand->strides == first.strides;
    all_contiguous = all_contiguous && operand->is_contiguous();
  }
  if (same_shape && all_contiguous) return Layout::contiguous(first.shape());
  if (same_shape && same_strides && first.is_dense()) return first;

  Layout result = broadcast(operands);
  std::array<Operand, kMostOperands> strides;
  for (size_t k = 0; k < operands.size(); ++k) strides[k] = broadcast_to(result, *operands[k]);
  const std::array<int, kMaxRank> order = order_of_dims({strides.data(), operands.size()}, result);
  assign_strides(result, {order.data(), static_cast<size_t>(result.rank)});
  return result;
}

Layout reduced(const Layout& input, unsigned mask, bool keep_dims) {
  std::array<int64_t, kMaxRank> sizes{};
  int rank = 0;
  for (int i = 0; i < input.rank; ++i) {
    const bool is_reduced = (mask >> i) & 1U;
    if (is_reduced && !keep_dims) continue;
    sizes[static_cast<size_t>(rank++)] = is_reduced ? 1 : input.sizes[static_cast<size_t>(i)];
  }
  return Layout::contiguous({sizes.data(), static_cast<size_t>(rank)});
}

}  // namespace plimsoll
