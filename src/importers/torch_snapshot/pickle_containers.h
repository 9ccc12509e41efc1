// The lists and dicts of a pickle that are still being filled or kept, and its memo.
//
// Invariant: a value of kind list or dict is alive while its place has not been given to another; a stale one
// reads as empty and is released without effect. So a list that contains itself does no harm.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "importers/torch_snapshot/pickle_value.h"

namespace plimsoll {

// Objects of one type with consecutive ids.
struct ObjectRange {
  uint8_t type = 0;
  uint32_t first = 0;
  uint32_t count = 0;
};

struct PickleContainer {
  uint64_t generation = 0;
  std::optional<uint64_t> memo;      // where the memo has it
  std::vector<PickleValue> items;    // of a dict keys and values, alternating
  std::optional<ObjectRange> range;  // of a list: sequenced objects instead of items
};

// In pieces, so that it never has to be moved, and with four bytes for each entry: a long trace has three of
// them for each of its events.
class PickleMemo {
 public:
  static constexpr uint64_t kPiece = 1U << 16U;
  static constexpr uint32_t kMostIds = 1U << 27U;

  bool has(uint64_t index) const { return index < next_ && pieces_[index / kPiece] != nullptr; }
  // Of a container without its generation. REQUIRES has(index).
  PickleValue get(uint64_t index) const {
    const uint32_t entry = pieces_[index / kPiece][index % kPiece];
    const PickleValue v(static_cast<PickleKind>(entry / kMostIds), entry % kMostIds, 1);
    return v.is_number() ? numbers_[v.id] : v;
  }
  // REQUIRES v.id < kMostIds.
  void put(uint64_t index, const PickleValue& v) {
    if (index >= next_ || !pieces_[index / kPiece]) extend_to(index);
    const uint32_t id = v.is_number() ? add_number(v) : v.id;
    pieces_[index / kPiece][index % kPiece] = static_cast<uint32_t>(v.kind) * kMostIds + id;
  }
  uint64_t next() const { return next_; }  // where MEMOIZE puts the next one
  size_t numbers() const { return numbers_.size(); }

 private:
  void extend_to(uint64_t index);
  uint32_t add_number(const PickleValue& v);

  std::vector<std::unique_ptr<uint32_t[]>> pieces_;  // kind, id
  std::vector<PickleValue> numbers_;                 // what these stand for has no id
  uint64_t next_ = 0;
};

class PickleContainers {
 public:
  PickleValue add(PickleKind kind);
  // Null when its place has been given to another.
  PickleContainer* find(const PickleValue& v);
  const PickleContainer* find(const PickleValue& v) const;
  void add_items(PickleContainer& to, std::span<const PickleValue> items);
  // These containers and all below them: their places are used again, their memo entries are consumed.
  void release(std::span<const PickleValue> values) {
    for (const PickleValue& v : values)
      if (v.is_container()) release(v);
  }
  void release(const PickleValue& container);
  // In the memo the object stands for the container from now on.
  void replace(const PickleValue& container, const PickleValue& object);

  size_t size() const { return places_.size() - unused_.size(); }
  size_t held_values() const { return held_values_; }
  const PickleMemo& memo() const { return memo_; }
  void put(uint64_t index, const PickleValue& v) {
    memo_.put(index, v);
    if (v.is_container()) note_memo(index, v);
  }
  // REQUIRES memo().has(index).
  PickleValue get(uint64_t index) const {
    PickleValue v = memo_.get(index);
    if (v.is_container()) v.unsigned_integer = places_[v.id]->generation;
    return v;
  }

 private:
  void note_memo(uint64_t index, const PickleValue& container);
  void give_back(const PickleValue& v, PickleContainer& container);

  std::vector<std::unique_ptr<PickleContainer>> places_;
  std::vector<uint32_t> unused_;
  std::vector<PickleValue> pending_;  // of release
  size_t held_values_ = 0;
  PickleMemo memo_;
};

}  // namespace plimsoll
