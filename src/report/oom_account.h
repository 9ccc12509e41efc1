// Whose the device's memory was when an out-of-memory error was written, by the message's own sums.
//
//   const OomAccount account = account_of(message);
//   account.beside;  // Bytes of this process that its allocator doesn't know
//
// PyTorch asks the driver for the processes on the device and looks for its own number among them. In a
// container the two count processes differently, and so this process stands in the list as another one. Its
// tensors and cache then are part of what that process has, and counting both would come to more than the
// device. Source: c10/cuda/CUDACachingAllocator.cpp, reportProcessMemoryInfo().
#pragma once

#include <optional>
#include <vector>

#include "trace/out_of_memory_message.h"

namespace plimsoll {

// How this process is known among those of the message.
enum class OwnProcess : uint8_t {
  kNamed,         // "this process has"
  kNoneListed,    // the message lists no process
  kNotListed,     // those listed are all too small to hold this one's tensors and cache
  kBySums,        // one listed can hold them, and beside each other they would not fit the device
  kOneOfSeveral,  // the same, of more than one
  kUndecided      // one or more can hold them, and they would fit beside each other too
};

struct OomAccount {
  OwnProcess how = OwnProcess::kNoneListed;
  std::optional<OutOfMemoryMessage::Process> own;       // by the sums
  std::vector<OutOfMemoryMessage::Process> others;      // of kUndecided this one may be among them
  std::vector<OutOfMemoryMessage::Process> one_is_own;  // of kOneOfSeveral
  std::optional<Bytes> own_use;                         // context and libraries included
  std::optional<Bytes> beside;   // of it, not of PyTorch's allocator: context, libraries, NCCL
  std::optional<Bytes> unnamed;  // of the device, in use by none that the message names
  Bytes beyond_own;              // of `one_is_own`, beside this process's tensors and cache
  Bytes tolerance;               // that the sums may be off, as the message rounds

  Bytes of_others() const;
};

OomAccount account_of(const OutOfMemoryMessage& message);

// How far a size may be off that was written as "11.47 GiB", "20.00 MiB" or "512 bytes".
Bytes rounding_of(Bytes written);

}  // namespace plimsoll
