#include "allocator/device_memory.h"

#include <cassert>

#include "allocator/rounding.h"

namespace plimsoll {
namespace {

constexpr uint64_t kLastAddress = uint64_t{1} << 62;

}  // namespace

bool SimulatedDevice::take(uint64_t size) {
  const uint64_t limit = static_cast<uint64_t>(available_.value_or(kUnlimitedDevice).value);
  if (size > limit || used_ > limit - size) return false;
  used_ += size;
  return true;
}

std::optional<uint64_t> SimulatedDevice::allocate(uint64_t size) {
  if (!take(size)) return std::nullopt;
  std::vector<uint64_t>& released = released_[size];
  std::optional<uint64_t> address;
  if (released.empty()) {
    address = reserve_addresses(size);
    if (!address) used_ -= size;
  } else {
    address = released.back();
    released.pop_back();
  }
  return address;
}

void SimulatedDevice::release(uint64_t address, uint64_t size) {
  assert(size <= used_ && "released more than was given out");
  used_ -= size;
  released_[size].push_back(address);
}

std::optional<uint64_t> SimulatedDevice::reserve_addresses(uint64_t size) {
  if (size > kLastAddress - next_address_) return std::nullopt;
  const uint64_t address = next_address_;
  next_address_ += (size + kLargeGranularity - 1) / kLargeGranularity * kLargeGranularity;
  return address;
}

bool SimulatedDevice::map(uint64_t /*address*/, uint64_t size) { return take(size); }

void SimulatedDevice::unmap(uint64_t /*address*/, uint64_t size) {
  assert(size <= used_ && "unmapped more than was mapped");
  used_ -= size;
}

std::optional<Bytes> SimulatedDevice::free_bytes() const {
  if (!available_) return std::nullopt;
  return *available_ - Bytes{static_cast<int64_t>(used_)};
}

}  // namespace plimsoll
