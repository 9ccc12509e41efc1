// Figures of one out-of-memory error that can't all be true, as when a driver counts something else than its
// sentence says, or when the text was put together of several. What holds for every true message:
//
//   free, allowed, each process        at most the device
//   of private pools                   at most what is allocated
//   allocated                          at most what is reserved
//   allocated and cached               at most what the process uses
//   allocated, cached and free         at most the device
//   all processes listed and free      at most the device
//
// each as far as the text's rounding allows. Allocated and cached may come to more than the device where the
// driver moves memory to the host (Windows): that alone is no contradiction. Figures of one that is found are
// not looked at again, so that one wrong figure isn't blamed on all.
//
//   const auto contradictions = contradictions_of(message);
//   findings_of(without_contradicted(message, contradictions));
//
// Source: c10/cuda/CUDACachingAllocator.cpp, malloc() and reportProcessMemoryInfo(); cudaMemGetInfo().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/out_of_memory_message.h"

namespace plimsoll {

enum class OomFigure : uint8_t {
  kCapacity,
  kFree,
  kInUse,
  kAllowed,
  kAllocated,
  kPrivatePools,
  kCached,
  kProcesses
};
std::string_view name_of(OomFigure figure);  // as in JSON: "free_bytes"

struct OomContradiction {
  std::string text;  // "900.00 GiB free of a device of 80.00 GiB"
  std::vector<OomFigure> figures;
  std::string not_concluded;  // what rests on these: "whether the device had room for the request, ..."

  std::string note() const;
};

std::vector<OomContradiction> contradictions_of(const OutOfMemoryMessage& message);

// The message as if it didn't say what is contradicted.
OutOfMemoryMessage without_contradicted(const OutOfMemoryMessage& message,
                                        const std::vector<OomContradiction>& contradictions);

}  // namespace plimsoll
