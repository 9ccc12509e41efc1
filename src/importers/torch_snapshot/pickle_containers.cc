#include "importers/torch_snapshot/pickle_containers.h"

#include <algorithm>

namespace plimsoll {

void PickleMemo::extend_to(uint64_t index) {
  const uint64_t piece = index / kPiece;
  if (piece >= pieces_.size()) pieces_.resize(piece + 1);
  if (!pieces_[piece]) pieces_[piece] = std::make_unique<uint32_t[]>(kPiece);
  next_ = std::max(next_, index + 1);
}

uint32_t PickleMemo::add_number(const PickleValue& v) {
  numbers_.push_back(v);
  return static_cast<uint32_t>(numbers_.size() - 1);
}

void PickleContainers::note_memo(uint64_t index, const PickleValue& v) {
  if (PickleContainer* const container = find(v)) container->memo = index;
}

PickleValue PickleContainers::add(PickleKind kind) {
  uint32_t id = 0;
  if (unused_.empty()) {
    id = static_cast<uint32_t>(places_.size());
    places_.push_back(std::make_unique<PickleContainer>());
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  PickleValue v = PickleValue::of_kind(kind, id);
  v.unsigned_integer = places_[id]->generation;
  return v;
}

const PickleContainer* PickleContainers::find(const PickleValue& v) const {
  const PickleContainer& place = *places_[v.id];
  return place.generation == v.unsigned_integer ? &place : nullptr;
}
PickleContainer* PickleContainers::find(const PickleValue& v) {
  return const_cast<PickleContainer*>(std::as_const(*this).find(v));
}

void PickleContainers::add_items(PickleContainer& to, std::span<const PickleValue> items) {
  to.items.insert(to.items.end(), items.begin(), items.end());
  held_values_ += items.size();
}

void PickleContainers::release(const PickleValue& outermost) {
  pending_.push_back(outermost);
  while (!pending_.empty()) {
    const PickleValue v = pending_.back();
    pending_.pop_back();
    if (PickleContainer* const container = find(v)) give_back(v, *container);
  }
}

void PickleContainers::give_back(const PickleValue& v, PickleContainer& container) {
  ++container.generation;
  if (container.memo) memo_.put(*container.memo, PickleValue::of_kind(PickleKind::kConsumed));
  container.memo.reset();
  container.range.reset();
  for (const PickleValue& item : container.items)
    if (item.is_container()) pending_.push_back(item);
  held_values_ -= container.items.size();
  container.items.clear();
  unused_.push_back(v.id);
}

void PickleContainers::replace(const PickleValue& v, const PickleValue& object) {
  PickleContainer* const container = find(v);
  if (!container || !container->memo) return;
  memo_.put(*container->memo, object);
  container->memo.reset();
}

}  // namespace plimsoll
