// The lists and dicts of a pickle that are still being filled or kept, and its memo.
//
// Invariant: a value of kind list or dict is alive while its place has not been given to another; a stale one
// reads as empty and is released without effect. So a list that contains itself does no harm.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
  bool is_refused = false;           // a list that the sink didn't take
};

// In pieces, so that it never has to be moved, and with four bytes for each entry: a long trace has three of
// them for each of its events.
class PickleMemo {
 public:
  static constexpr uint64_t kPiece = 1U << 16U;
  static constexpr uint32_t kMostIds = 1U << 27U;

  PickleMemo() { add_pieces(0); }

  bool has(uint64_t index) const { return index < next_ && entry(index) != 0; }
  // Of a container without its generation. REQUIRES has(index).
  PickleValue get(uint64_t index) const {
    const PickleValue v = value_of(entry(index));
    return v.is_number() ? numbers_[v.id] : v;
  }
  // Whether a value is there that its entry is enough for, no number and no container: `to` is it then.
  bool get_whole(uint64_t index, PickleValue& to) const {
    return index < next_ && take_whole(entry(index), to);
  }
  // The first kPiece entries, which stay where they are.
  const uint32_t* first_entries() const { return pieces_[0].get(); }
  static bool take_whole(uint32_t entry, PickleValue& to) {
    if (entry < static_cast<uint32_t>(PickleKind::kConsumed) * kMostIds) return false;
    const PickleValue v = value_of(entry);
    to.kind = v.kind;
    to.id = v.id;
    to.integer = v.integer;
    return true;
  }
  // REQUIRES v.id < kMostIds.
  void put(uint64_t index, const PickleValue& v) {
    if (index >= next_) extend_to(index);
    const uint32_t id = v.is_number() ? add_number(v) : v.id;
    pieces_[index / kPiece][index % kPiece] = static_cast<uint32_t>(v.kind) * kMostIds + id;
  }
  uint64_t next() const { return next_; }  // where MEMOIZE puts the next one
  uint64_t skipped() const { return skipped_; }
  size_t numbers() const { return numbers_.size(); }

 private:
  uint32_t entry(uint64_t index) const { return pieces_[index / kPiece][index % kPiece]; }
  static PickleValue value_of(uint32_t entry) {
    return {static_cast<PickleKind>(entry / kMostIds), entry % kMostIds, 1};
  }
  void extend_to(uint64_t index) {
    if (index / kPiece >= pieces_.size()) add_pieces(index / kPiece);
    skipped_ += index - next_;
    next_ = index + 1;
  }
  void add_pieces(uint64_t last);
  uint32_t add_number(const PickleValue& v);

  std::vector<std::unique_ptr<uint32_t[]>> pieces_;  // kind, id; all up to next_; 0 where nothing was put
  std::vector<PickleValue> numbers_;                 // what these stand for has no id
  uint64_t next_ = 0;
  uint64_t skipped_ = 0;  // entries that were passed over by those behind them
};

class PickleContainers {
 public:
  PickleValue add(PickleKind kind) {
    const uint32_t id = take_place();
    return {kind, id, static_cast<int64_t>(places_[id]->generation)};
  }
  // Null when its place has been given to another.
  PickleContainer* find(const PickleValue& v) { return alive(v); }
  const PickleContainer* find(const PickleValue& v) const { return alive(v); }
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
  PickleContainer* alive(const PickleValue& v) const {
    PickleContainer& place = *places_[v.id];
    return place.generation == v.unsigned_integer ? &place : nullptr;
  }
  uint32_t take_place() {
    if (unused_.empty()) return add_place();
    const uint32_t id = unused_.back();
    unused_.pop_back();
    return id;
  }
  uint32_t add_place();
  void note_memo(uint64_t index, const PickleValue& v) {
    if (PickleContainer* const container = find(v)) container->memo = index;
  }
  void give_back(const PickleValue& v, PickleContainer& container);

  std::vector<std::unique_ptr<PickleContainer>> places_;
  std::vector<uint32_t> unused_;
  std::vector<PickleValue> pending_;  // of release
  size_t held_values_ = 0;
  PickleMemo memo_;
};

}  // namespace plimsoll
