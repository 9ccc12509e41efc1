#include "runtime/host_memory.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <memory>

namespace plimsoll::runtime {
namespace {

struct Block {
  void* data = nullptr;
  MeasuredAllocator::Elsewhere counted;
};

void release(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  std::free(block->data);
}

}  // namespace

c10::Storage allocate_on_host(const Storage& wanted, MeasuredAllocator& allocator) {
  assert(wanted.tier == Tier::kHost || wanted.tier == Tier::kHostPinned);
  const auto bytes = static_cast<size_t>(wanted.bytes.value);
  void* data = nullptr;
  const int problem = posix_memalign(&data, kHostAlignment, std::max<size_t>(bytes, 1));
  TORCH_CHECK(problem == 0, "the host has no memory for ", bytes, " bytes");
  auto* const block = new Block{data, {allocator, wanted.tier, wanted.category, wanted.bytes}};
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      c10::DataPtr(data, block, &release, c10::Device(c10::DeviceType::CPU)),
      /*allocator=*/nullptr, /*resizable=*/false);
}

}  // namespace plimsoll::runtime
