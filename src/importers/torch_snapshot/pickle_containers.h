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

// In pieces, so that it never has to be moved: a long trace has two entries for each of its events.
class PickleMemo {
 public:
  static constexpr uint64_t kPiece = 1U << 16U;

  // Of a container without its generation. Nothing where nothing was put.
  std::optional<PickleValue> get(uint64_t index) const;
  void put(uint64_t index, const PickleValue& v);
  uint64_t next() const { return next_; }  // where MEMOIZE puts the next one

 private:
  struct Entry {
    uint32_t id = 0;  // of a number its place in numbers_
    PickleKind kind = PickleKind::kConsumed;
    uint8_t type = 0;
  };
  std::vector<std::unique_ptr<Entry[]>> pieces_;
  std::vector<PickleValue> numbers_;
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
  void release(std::span<const PickleValue> values);
  // In the memo the object stands for the container from now on.
  void replace(const PickleValue& container, const PickleValue& object);

  size_t size() const { return places_.size() - unused_.size(); }
  size_t held_values() const { return held_values_; }
  uint64_t next_memo() const { return memo_.next(); }
  void put(uint64_t index, const PickleValue& v);
  std::optional<PickleValue> get(uint64_t index) const;

 private:
  std::vector<std::unique_ptr<PickleContainer>> places_;
  std::vector<uint32_t> unused_;
  std::vector<PickleValue> pending_;  // of release
  size_t held_values_ = 0;
  PickleMemo memo_;
};

}  // namespace plimsoll
