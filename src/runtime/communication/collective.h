// One collective as its ranks compare it, and how its tensors are divided.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace plimsoll::runtime {

enum class CollectiveKind : uint32_t { kAllReduce, kReduceScatter, kAllGather };

// What a rank tells the others before any data moves.
struct CollectiveHeader {
  uint64_t sequence = 0;  // collectives of this communicator, from 1
  CollectiveKind kind = CollectiveKind::kAllReduce;
  uint32_t dtype = 0;    // c10::ScalarType
  int64_t elements = 0;  // of the whole tensor

  bool operator==(const CollectiveHeader&) const = default;
  std::string to_text() const;  // "collective 7, all_gather of 4096 Float"
};

struct Collective {
  CollectiveHeader header;
  at::Tensor whole, part;  // all_reduce: no part

  char* bytes_of_whole(int64_t element) const;
};

// Elements [first, last) of n that rank r of `ranks` sums.
struct Slice {
  int64_t first = 0, last = 0;
  int64_t elements() const { return last - first; }
};
inline Slice slice_of(int64_t n, int64_t r, int64_t ranks) {
  return {.first = n * r / ranks, .last = n * (r + 1) / ranks};
}

// Errors: not contiguous, a dtype that has no sum, `whole` isn't `ranks` parts.
Result<Collective> make_collective(CollectiveKind kind, const at::Tensor& whole, const at::Tensor& part,
                                   int64_t ranks);

// What is wrong when rank `other` calls `theirs` while rank `self` calls `own`; empty: nothing.
std::optional<std::string> difference(const CollectiveHeader& own, int64_t self,
                                      const CollectiveHeader& theirs, int64_t other);

}  // namespace plimsoll::runtime
