// Memory for large tensors, straight from the system. Blocks that were given back are kept for the next
// request of the same size, so that their pages need not be found and zeroed again, but never so many that
// kept and used ones together exceed what was ever used at once: the resident set peaks where the allocated
// bytes do. (The C library's heap grows by a fifth more: it splits what it keeps.) Pages are huge where the
// system has them on request.
//
//   LargeBlocks blocks;
//   void* const block = blocks.take(bytes);     // page-aligned
//   blocks.give_back(block, bytes);
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>

namespace plimsoll::runtime {

inline constexpr size_t kLargeBlock = size_t{1} << 20;  // bytes: what is smaller isn't worth system calls

class LargeBlocks {
 public:
  LargeBlocks() = default;
  ~LargeBlocks() { drop_kept(); }
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;

  // REQUIRES bytes > 0. Null: the system has no more.
  void* take(size_t bytes);
  // REQUIRES it was taken with so many bytes.
  void give_back(void* block, size_t bytes);

  void drop_kept();  // gives what is kept back to the system

  size_t used_bytes() const;
  size_t kept_bytes() const;  // both in whole pages

 private:
  struct Block {
    void* start;
    size_t bytes;
  };
  void* reuse(size_t bytes);
  void drop_oldest();

  mutable std::mutex mutex_;
  std::list<Block> kept_;  // the oldest first
  size_t used_bytes_ = 0, kept_bytes_ = 0, most_used_ = 0;
};

}  // namespace plimsoll::runtime
