#include "importers/torch_snapshot/pickle_containers.h"

#include <algorithm>

namespace plimsoll {

namespace {

bool has_id(PickleKind kind) {
  return kind >= PickleKind::kString;  // the others are numbers
}

}  // namespace

std::optional<PickleValue> PickleMemo::get(uint64_t index) const {
  const uint64_t piece = index / kPiece;
  if (index >= next_ || !pieces_[piece]) return std::nullopt;
  const Entry& entry = pieces_[piece][index % kPiece];
  if (!has_id(entry.kind)) return numbers_[entry.id];
  PickleValue v = PickleValue::of_kind(entry.kind, entry.id);
  v.type = entry.type;
  return v;
}

void PickleMemo::put(uint64_t index, const PickleValue& v) {
  const uint64_t piece = index / kPiece;
  if (piece >= pieces_.size()) pieces_.resize(piece + 1);
  if (!pieces_[piece]) pieces_[piece] = std::make_unique<Entry[]>(kPiece);
  next_ = std::max(next_, index + 1);
  Entry& entry = pieces_[piece][index % kPiece];
  entry = {.id = v.id, .kind = v.kind, .type = v.type};
  if (has_id(v.kind)) return;
  entry.id = static_cast<uint32_t>(numbers_.size());
  numbers_.push_back(v);
}

void PickleContainers::put(uint64_t index, const PickleValue& v) {
  memo_.put(index, v);
  if (PickleContainer* const container = v.is_container() ? find(v) : nullptr) container->memo = index;
}

std::optional<PickleValue> PickleContainers::get(uint64_t index) const {
  std::optional<PickleValue> v = memo_.get(index);
  if (v && v->is_container()) v->unsigned_integer = places_[v->id]->generation;
  return v;
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

void PickleContainers::release(std::span<const PickleValue> values) {
  for (const PickleValue& v : values)
    if (v.is_container()) pending_.push_back(v);
  while (!pending_.empty()) {
    const PickleValue v = pending_.back();
    pending_.pop_back();
    PickleContainer* const container = find(v);
    if (!container) continue;
    ++container->generation;
    if (container->memo) memo_.put(*container->memo, PickleValue::of_kind(PickleKind::kConsumed));
    container->memo.reset();
    container->range.reset();
    for (const PickleValue& item : container->items)
      if (item.is_container()) pending_.push_back(item);
    held_values_ -= container->items.size();
    container->items.clear();
    unused_.push_back(v.id);
  }
}

void PickleContainers::replace(const PickleValue& v, const PickleValue& object) {
  PickleContainer* const container = find(v);
  if (!container || !container->memo) return;
  memo_.put(*container->memo, object);
  container->memo.reset();
}

}  // namespace plimsoll
