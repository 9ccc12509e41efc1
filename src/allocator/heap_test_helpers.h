// What tests of heaps write often.
#pragma once

#include <gtest/gtest.h>

#include "allocator/heap.h"

namespace plimsoll {

inline constexpr Bytes kB512{512};
inline Bytes mib(int64_t n) { return n * kMiB; }

inline BlockId must(const Allocation& allocation) {
  EXPECT_TRUE(allocation.has_value());
  return allocation.value_or(kEmptyBlock);
}

}  // namespace plimsoll
