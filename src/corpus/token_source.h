// A long row of token ids on the disk, read at any place.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

namespace plimsoll {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  TokenSource(const TokenSource&) = delete;
  TokenSource& operator=(const TokenSource&) = delete;

  virtual int64_t tokens() const = 0;
  virtual int64_t vocabulary() const = 0;    // every id that read() gives is below it
  virtual uint64_t index_bytes() const = 0;  // of memory
  // REQUIRES 0 <= first and first + to.size() <= tokens(). Thread-safe.
  virtual Result<void> read(int64_t first, std::span<int64_t> to) const = 0;

 protected:
  TokenSource() = default;
};

}  // namespace plimsoll
