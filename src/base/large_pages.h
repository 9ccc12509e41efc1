// Large arrays that are filled once: with the pages of 4 KiB that memory has by default, the system stops the
// program for each of them. Linux gives 2 MiB at a time where it is asked to; elsewhere nothing is done.
//
//   ops.reserve(20'000'000);
//   prefer_large_pages(ops.data(), ops.capacity() * sizeof(ops[0]));
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>

namespace plimsoll {

// Of the pages that are wholly within these bytes. A wish: that it isn't met is no error.
inline void prefer_large_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr size_t kPage = size_t{1} << 21U;
  if (std::align(kPage, kPage, begin, bytes)) madvise(begin, bytes / kPage * kPage, MADV_HUGEPAGE);
#endif
}

// Gives the memory of the pages that are wholly within these bytes back to the system; what stood there reads
// as zero, or as before.
inline void give_back_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_DONTNEED
  constexpr size_t kPage = size_t{1} << 16U;  // as large as any system's
  if (std::align(kPage, kPage, begin, bytes)) madvise(begin, bytes / kPage * kPage, MADV_DONTNEED);
#endif
}

}  // namespace plimsoll
