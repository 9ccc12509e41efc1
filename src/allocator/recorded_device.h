// The device of a replay: gives a heap memory only where a trace says that the allocator got some, at the
// recorded address. While it is generous it gives whatever is asked for, far away from the recorded.
//
// Invariant: recorded memory that is in use doesn't overlap; a trace that says so is not believed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/device_memory.h"
#include "allocator/replay_script.h"

namespace plimsoll {

// Ranges of addresses that don't overlap.
class AddressRanges {
 public:
  bool add(uint64_t address, uint64_t size);     // false, and nothing is added, when it overlaps or is empty
  void remove(uint64_t address, uint64_t size);  // what of it is there

 private:
  std::map<uint64_t, uint64_t> end_of_;  // by beginning
};

class RecordedDevice final : public DeviceMemory {
 public:
  explicit RecordedDevice(uint64_t range_size) : range_size_(range_size) {}

  std::optional<uint64_t> allocate(uint64_t size) override;
  void release(uint64_t address, uint64_t size) override { in_use_.remove(address, size); }
  std::optional<uint64_t> reserve_addresses(uint64_t size) override;
  bool map(uint64_t address, uint64_t size) override;
  void unmap(uint64_t address, uint64_t size) override { in_use_.remove(address, size); }
  std::optional<Bytes> free_bytes() const override { return std::nullopt; }
  // Of a device whose ranges for expandable segments have the recorded size.
  std::optional<Bytes> total_bytes() const override {
    return Bytes{static_cast<int64_t>(range_size_ / 9 * 8)};
  }

  // Memory that is there at the start. False: it overlaps other memory.
  bool take(uint64_t address, uint64_t size) { return in_use_.add(address, size); }
  void expect(const ReplayOp& memory) {
    if (take(memory.address, memory.bytes)) expected_.push_back(memory);
  }
  const std::vector<ReplayOp>& expected() const { return expected_; }
  std::vector<ReplayOp> take_expected() { return std::exchange(expected_, {}); }
  void set_generous(bool is_generous) { is_generous_ = is_generous; }
  int64_t matched() const { return matched_; }

 private:
  SimulatedDevice elsewhere_;
  AddressRanges in_use_;
  std::vector<ReplayOp> expected_;
  uint64_t range_size_;
  bool is_generous_ = false;
  int64_t matched_ = 0;
};

}  // namespace plimsoll
