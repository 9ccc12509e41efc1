#include "runtime/host_memory.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include <cassert>
#include <cstdlib>

namespace plimsoll::runtime {
namespace {

struct Block {
  void* data = nullptr;
  Tier tier = Tier::kHost;
  Category category = Category::kTemporary;
  Bytes bytes;
  MeasuredAllocator* allocator = nullptr;
};

void release(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  std::free(block->data);
  block->allocator->count_elsewhere(block->tier, block->category, Bytes{} - block->bytes);
}

}  // namespace

c10::Storage allocate_on_host(const Storage& wanted, MeasuredAllocator& allocator) {
  assert(wanted.tier == Tier::kHost || wanted.tier == Tier::kHostPinned);
  auto block = std::make_unique<Block>(Block{
      .tier = wanted.tier, .category = wanted.category, .bytes = wanted.bytes, .allocator = &allocator});
  const auto bytes = static_cast<size_t>(wanted.bytes.value);
  const int problem = posix_memalign(&block->data, kHostAlignment, std::max<size_t>(bytes, 1));
  TORCH_CHECK(problem == 0, "the host has no memory for ", bytes, " bytes");
  allocator.count_elsewhere(block->tier, block->category, block->bytes);
  void* const data = block->data;
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      c10::DataPtr(data, block.release(), &release, c10::Device(c10::DeviceType::CPU)),
      /*allocator=*/nullptr, /*resizable=*/false);
}

}  // namespace plimsoll::runtime
