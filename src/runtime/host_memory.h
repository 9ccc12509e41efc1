// Memory of the program's host tiers. It doesn't come from the tensor allocator, which stands for the device
// here: what is kept on the host must not count there. Blocks begin at a multiple of kHostAlignment, so that
// files are read into them and written from them directly (disk_file.h).
//
//   c10::Storage storage = allocate_on_host(wanted, allocator);   // wanted: a Storage of the program
//
// Does not model: page locking; on a machine without a device copies don't need it, and Tier::kHostPinned is
// ordinary memory.
#pragma once

#include <c10/core/Storage.h>

#include "program/program.h"
#include "runtime/measured_allocator.h"

namespace plimsoll::runtime {

inline constexpr size_t kHostAlignment = 4096;

// Throws c10::Error when there is no memory, as tensors do. REQUIRES a host tier; the allocator outlives it.
c10::Storage allocate_on_host(const Storage& wanted, MeasuredAllocator& allocator);

}  // namespace plimsoll::runtime
