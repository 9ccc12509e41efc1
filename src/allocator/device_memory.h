// The device's memory as the driver hands it out: where a caching heap gets its segments. Several heaps, or a
// heap and a communicator, may share one. The default implementation gives increasing addresses up to a
// limit, and a released range again to the next request of its size; a replay puts recorded addresses in its
// place.
//
// Invariant: ranges given out and not released don't overlap; used() is their sum (of reserved addresses only
// the mapped part) and never above the limit. Does not model: the driver's own fragmentation of physical
// memory, which whole pages of 2 MiB make harmless.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/units.h"

namespace plimsoll {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // cudaMalloc: the address of `size` bytes, or nothing when the device is full.
  virtual std::optional<uint64_t> allocate(uint64_t size) = 0;
  // cudaFree.
  virtual void release(uint64_t address, uint64_t size) = 0;
  // cuMemAddressReserve: addresses without memory; nothing when there are none left.
  virtual std::optional<uint64_t> reserve_addresses(uint64_t size) = 0;
  // cuMemCreate and cuMemMap: false when the device is full.
  virtual bool map(uint64_t address, uint64_t size) = 0;
  virtual void unmap(uint64_t address, uint64_t size) = 0;
  // What cudaMemGetInfo reports; empty: not limited.
  virtual std::optional<Bytes> free_bytes() const = 0;
  virtual std::optional<Bytes> total_bytes() const = 0;
};

class SimulatedDevice final : public DeviceMemory {
 public:
  // `available` is what the process may still take, `total` what the device has (by default the same).
  explicit SimulatedDevice(std::optional<Bytes> available = std::nullopt,
                           std::optional<Bytes> total = std::nullopt)
      : available_(available), total_(total ? total : available) {}

  std::optional<uint64_t> allocate(uint64_t size) override;
  void release(uint64_t address, uint64_t size) override;
  std::optional<uint64_t> reserve_addresses(uint64_t size) override;
  bool map(uint64_t address, uint64_t size) override;
  void unmap(uint64_t address, uint64_t size) override;
  std::optional<Bytes> free_bytes() const override;
  std::optional<Bytes> total_bytes() const override { return total_; }
  uint64_t used() const { return used_; }

 private:
  bool take(uint64_t size);

  std::optional<Bytes> available_, total_;
  uint64_t used_ = 0;
  uint64_t next_address_ = uint64_t{0x70} << 40;        // where Linux maps things, roughly
  std::map<uint64_t, std::vector<uint64_t>> released_;  // by size: addresses to give out again
};

}  // namespace plimsoll
