#include "runtime/host_memory.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include <cassert>
#include <memory>
#include <new>
#include <utility>

namespace plimsoll::runtime {
namespace {

constexpr std::align_val_t kAlignment{kHostAlignment};

struct Delete {
  void operator()(void* data) const { ::operator delete(data, kAlignment); }
};

struct Block {
  std::unique_ptr<void, Delete> data;
  MeasuredAllocator::Elsewhere counted;
};

void release(void* context) { const std::unique_ptr<Block> block(static_cast<Block*>(context)); }

}  // namespace

c10::Storage allocate_on_host(const Storage& wanted, MeasuredAllocator& allocator) {
  assert(wanted.tier == Tier::kHost || wanted.tier == Tier::kHostPinned);
  const auto bytes = static_cast<size_t>(wanted.bytes.value);
  std::unique_ptr<void, Delete> memory(::operator new(bytes, kAlignment, std::nothrow));
  TORCH_CHECK_WITH(OutOfMemoryError, memory != nullptr, "the host has no memory for ", bytes, " bytes of ",
                   name_of(wanted.category));
  void* const data = memory.get();
  auto* const block = new Block{std::move(memory), {allocator, wanted.tier, wanted.category, wanted.bytes}};
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      c10::DataPtr(data, block, &release, c10::Device(c10::DeviceType::CPU)),
      /*allocator=*/nullptr, /*resizable=*/false);
}

}  // namespace plimsoll::runtime
