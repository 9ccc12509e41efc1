// Errors for want of memory whose text gives no account of who held it, so that there is nothing to analyse:
// of NCCL, the driver, cuBLAS and cuDNN, the host's allocator, Metal, XLA, the kernel. Found line by line.
//
//   for (const OtherFailure& failure : find_other_failures(log)) print(text_of(failure));
//
// Source: NCCL src/include/alloc.h and checks.h, c10/core/impl/alloc_cpu.cpp, c10/cuda/CUDAException.cpp,
// aten/src/ATen/cuda/CUDABlas.cpp, aten/src/ATen/native/mps/OperationUtils.mm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace plimsoll {

enum class FailureKind : uint8_t {
  kNccl,
  kLibrary,      // cuBLAS, cuDNN ...
  kDriver,       // "CUDA error: out of memory"
  kHost,         // PyTorch's allocator of host memory
  kKernelKill,   // Linux ended the process
  kMetalBuffer,  // one buffer larger than Metal allows
  kXla,
  kWrongSize,  // "Tried to allocate more than 1EB memory"
  kCut         // PyTorch's error without its figures
};

struct OtherFailure {
  FailureKind kind = FailureKind::kDriver;
  int line = 0;                // the first
  std::optional<Bytes> asked;  // where the text says it
  int64_t times = 1;           // lines of the same kind
};

// One of each kind, by line.
std::vector<OtherFailure> find_other_failures(std::string_view text);
// What it is, and why it holds nothing to analyse.
std::string text_of(const OtherFailure& failure);
// What to do next.
std::string_view hint_of(FailureKind kind);
// Of a text that holds nothing else.
Error error_of(const OtherFailure& failure, const std::string& file);

}  // namespace plimsoll
