#include "allocator/recorded_device.h"

#include <algorithm>

namespace plimsoll {

std::optional<uint64_t> RecordedDevice::allocate(uint64_t size) {
  const auto match = std::ranges::find_if(expected_, [&](const ReplayOp& op) {
    return op.kind == ReplayOp::Kind::kSegmentAlloc && op.bytes == size;
  });
  if (match == expected_.end()) return is_generous_ ? elsewhere_.allocate(size) : std::nullopt;
  const uint64_t address = match->address;
  expected_.erase(match);
  ++matched_;
  return address;
}

// A range begins with the first page that is mapped into it.
std::optional<uint64_t> RecordedDevice::reserve_addresses(uint64_t size) {
  const auto first = std::ranges::find(expected_, ReplayOp::Kind::kSegmentMap, &ReplayOp::kind);
  if (first != expected_.end()) return first->address;
  return is_generous_ ? elsewhere_.reserve_addresses(size) : std::nullopt;
}

bool RecordedDevice::map(uint64_t address, uint64_t size) {
  const auto match = std::ranges::find_if(expected_, [&](const ReplayOp& op) {
    return op.kind == ReplayOp::Kind::kSegmentMap && op.address == address && op.bytes == size;
  });
  if (match == expected_.end()) return is_generous_;
  expected_.erase(match);
  ++matched_;
  return true;
}

}  // namespace plimsoll
