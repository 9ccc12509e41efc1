// The physical memory of this process as the kernel counts it: all pages, of libraries too.
#pragma once

#include "base/units.h"

namespace plimsoll::runtime {

struct ResidentMemory {
  Bytes now, peak;  // VmRSS and VmHWM; the peak since the process began
};

// Zeros where there is no /proc.
ResidentMemory resident_memory();

}  // namespace plimsoll::runtime
