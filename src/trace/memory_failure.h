// What a log says of a death for want of memory without an account of who held it: of the host's allocator,
// Linux, Slurm, a container, DataLoader workers, /dev/shm, NCCL, cuBLAS, the driver, Metal, XLA.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/units.h"

namespace plimsoll {

enum class MemoryFailureKind : uint8_t {
  kNccl,
  kLibrary,       // cuBLAS, cuDNN ...
  kCublasHandle,  // "not initialized": memory most likely
  kConvolution,   // cuDNN found no algorithm: memory most likely
  kDriver,        // "CUDA error: out of memory"
  kHost,          // an allocator of host memory refused
  kKernelKill,    // Linux ended the process
  kCgroupKill,    // for the limit of its cgroup: a container, a unit of systemd
  kSlurmKill,     // for the limit of its Slurm job
  kTimeLimit,     // of Slurm: no lack of memory
  kKilled,        // SIGKILL, sender unknown
  kWorkerKilled,  // a DataLoader worker, by SIGKILL
  kSharedMemory,  // /dev/shm is full
  kKernelShared,  // one block of a kernel wants more on-chip memory than there is
  kMetalBuffer,   // one buffer larger than Metal allows
  kXla,
  kTensorFlow,
  kWrongSize,   // "Tried to allocate more than 1EB memory"
  kOldPyTorch,  // of the time of THC: no figures
  kCut          // PyTorch's error without its figures
};

struct MemoryFailure {
  MemoryFailureKind kind = MemoryFailureKind::kDriver;
  int line = 0;                // the first
  std::string text;            // of that line, without what surrounds it, at most kLongestFailureText bytes
  std::optional<Bytes> asked;  // where the text says it
  std::optional<Bytes> held;   // by the process that was ended
  int64_t times = 1;           // lines of the same kind
};

inline constexpr size_t kLongestFailureText = 160;

}  // namespace plimsoll
