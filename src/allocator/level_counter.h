// A current value with its peak, in bytes, as cheap as two integers: the inside of a Level.
// Invariant: 0 <= current <= peak.
#pragma once

#include <cstdint>

#include "allocator/heap.h"

namespace plimsoll {

class LevelCounter {
 public:
  void add(uint64_t bytes) {
    current_ += bytes;
    if (current_ > peak_) peak_ = current_;
  }
  void remove(uint64_t bytes) { current_ -= bytes; }
  void reset_peak() { peak_ = current_; }

  uint64_t current() const { return current_; }
  Level level() const {
    return {.current = Bytes{static_cast<int64_t>(current_)}, .peak = Bytes{static_cast<int64_t>(peak_)}};
  }

 private:
  uint64_t current_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace plimsoll
