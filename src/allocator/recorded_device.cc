#include "allocator/recorded_device.h"

#include <algorithm>

namespace plimsoll {

bool AddressRanges::add(uint64_t address, uint64_t size) {
  const uint64_t end = address + size;
  if (end <= address) return false;
  const auto next = end_of_.upper_bound(address);
  if (next != end_of_.end() && next->first < end) return false;
  if (next != end_of_.begin() && std::prev(next)->second > address) return false;
  end_of_[address] = end;
  return true;
}

void AddressRanges::remove(uint64_t address, uint64_t size) {
  const uint64_t end = address + size;
  auto at = end_of_.upper_bound(address);
  if (at != end_of_.begin() && std::prev(at)->second > address) --at;
  while (at != end_of_.end() && at->first < end) {
    const auto [begin_of_part, end_of_part] = *at;
    at = end_of_.erase(at);
    if (begin_of_part < address) end_of_[begin_of_part] = address;
    if (end_of_part > end) end_of_[end] = end_of_part;
  }
}

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
