#include "importers/torch_snapshot/pickle_containers.h"

namespace plimsoll {

void PickleMemo::add_pieces(uint64_t last) {
  while (pieces_.size() <= last) pieces_.push_back(std::make_unique<uint32_t[]>(kPiece));
}

uint32_t PickleMemo::add_number(const PickleValue& v) {
  numbers_.push_back(v);
  return static_cast<uint32_t>(numbers_.size() - 1);
}

uint32_t PickleContainers::add_place() {
  places_.push_back(std::make_unique<PickleContainer>());
  return static_cast<uint32_t>(places_.size() - 1);
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
  container.is_refused = false;
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
