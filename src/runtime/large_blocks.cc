#include "runtime/large_blocks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <iterator>

namespace plimsoll::runtime {
namespace {

size_t in_pages(size_t bytes) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

void* map(size_t bytes) {
  void* const block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return nullptr;
  madvise(block, bytes, MADV_HUGEPAGE);  // fails where there are none
  return block;
}

}  // namespace

void LargeBlocks::drop_kept() {
  const std::scoped_lock lock(mutex_);
  while (!kept_.empty()) drop_oldest();
}

void* LargeBlocks::take(size_t bytes) {
  bytes = in_pages(bytes);
  const std::scoped_lock lock(mutex_);
  void* block = reuse(bytes);
  if (block == nullptr) {
    const size_t limit = std::max(most_used_, used_bytes_ + bytes);
    while (!kept_.empty() && used_bytes_ + bytes + kept_bytes_ > limit) drop_oldest();
    block = map(bytes);
    if (block == nullptr) return nullptr;
  }
  used_bytes_ += bytes;
  most_used_ = std::max(most_used_, used_bytes_);
  return block;
}

// The newest of that size: most of it may still be in the caches.
void* LargeBlocks::reuse(size_t bytes) {
  const auto found =
      std::find_if(kept_.rbegin(), kept_.rend(), [=](const Block& b) { return b.bytes == bytes; });
  if (found == kept_.rend()) return nullptr;
  void* const block = found->start;
  kept_.erase(std::next(found).base());
  kept_bytes_ -= bytes;
  return block;
}

void LargeBlocks::give_back(void* block, size_t bytes) {
  bytes = in_pages(bytes);
  const std::scoped_lock lock(mutex_);
  assert(used_bytes_ >= bytes);
  used_bytes_ -= bytes;
  kept_bytes_ += bytes;
  kept_.push_back({.start = block, .bytes = bytes});
}

void LargeBlocks::drop_oldest() {
  const Block oldest = kept_.front();
  kept_.pop_front();
  kept_bytes_ -= oldest.bytes;
  munmap(oldest.start, oldest.bytes);
}

size_t LargeBlocks::used_bytes() const {
  const std::scoped_lock lock(mutex_);
  return used_bytes_;
}
size_t LargeBlocks::kept_bytes() const {
  const std::scoped_lock lock(mutex_);
  return kept_bytes_;
}

}  // namespace plimsoll::runtime
