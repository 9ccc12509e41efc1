// A map from addresses to small values, in one flat array (open addressing, linear probing): several times
// faster than the node-based maps of the standard library on the millions of addresses of a trace.
//
// Invariant: at most half of the slots are in use; every key is reached from its home slot without an empty
// slot in between. The order of for_each() is of no meaning. Not thread-safe.
//
//   AddressMap<uint32_t> slot_of;
//   slot_of[event.address] = 3;
//   if (const uint32_t* slot = slot_of.find(event.address)) slot_of.erase(event.address);
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace plimsoll {

template <typename Value>
class AddressMap {
 public:
  size_t size() const { return size_; }

  Value* find(uint64_t address) {
    if (slots_.empty()) return nullptr;
    for (size_t at = home(address);; at = next(at)) {
      if (!slots_[at].is_used) return nullptr;
      if (slots_[at].address == address) return &slots_[at].value;
    }
  }
  bool contains(uint64_t address) { return find(address) != nullptr; }

  // Invalidates pointers into the map.
  Value& operator[](uint64_t address) {
    if (Value* known = find(address)) return *known;
    if (2 * (size_ + 1) > slots_.size()) grow();
    ++size_;
    return place({.address = address, .is_used = true});
  }

  bool erase(uint64_t address) {
    Value* value = find(address);
    if (value == nullptr) return false;
    --size_;
    size_t hole = home(address);
    while (&slots_[hole].value != value) hole = next(hole);
    // What came to lie behind the hole because of it moves up.
    for (size_t at = next(hole); slots_[at].is_used; at = next(at)) {
      const size_t from_home = (at - home(slots_[at].address)) & (slots_.size() - 1);
      const size_t from_hole = (at - hole) & (slots_.size() - 1);
      if (from_home < from_hole) continue;
      slots_[hole] = std::move(slots_[at]);
      hole = at;
    }
    slots_[hole] = Slot{};
    return true;
  }

  template <typename Visit>
  void for_each(Visit visit) {
    for (Slot& slot : slots_)
      if (slot.is_used) visit(slot.address, slot.value);
  }

 private:
  struct Slot {
    uint64_t address = 0;
    Value value{};
    bool is_used = false;
  };

  // Addresses are multiples of 512, so the low bits say nothing; the product's high bits mix all others.
  size_t home(uint64_t address) const {
    return static_cast<size_t>((address * 0x9E3779B97F4A7C15ULL) >> shift_) & (slots_.size() - 1);
  }
  size_t next(size_t at) const { return (at + 1) & (slots_.size() - 1); }

  Value& place(Slot slot) {
    size_t at = home(slot.address);
    while (slots_[at].is_used) at = next(at);
    slots_[at] = std::move(slot);
    return slots_[at].value;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    shift_ = 64;
    for (size_t n = slots_.size(); n > 1; n /= 2) --shift_;
    for (Slot& slot : old)
      if (slot.is_used) place(std::move(slot));
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
  int shift_ = 64;
};

}  // namespace plimsoll
