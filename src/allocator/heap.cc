#include "allocator/heap.h"

#include <fmt/format.h>

namespace plimsoll {

std::string OutOfMemory::to_text() const {
  std::string text = fmt::format("tried to allocate {}", plimsoll::to_text(requested));
  if (segment_wanted != requested)
    text += fmt::format(" (a segment of {})", plimsoll::to_text(segment_wanted));
  if (device_free) text += fmt::format(", of which the device has {} free", plimsoll::to_text(*device_free));
  return text + fmt::format("; {} allocated, {} reserved", plimsoll::to_text(allocated),
                            plimsoll::to_text(reserved));
}

}  // namespace plimsoll
