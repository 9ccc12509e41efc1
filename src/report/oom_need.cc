#include "report/oom_need.h"

#include <algorithm>

#include "report/oom_request.h"

namespace plimsoll {
namespace {

Bytes not_negative(Bytes bytes) { return std::max(bytes, Bytes{}); }

// Of the device, without a limit.
std::optional<std::pair<Bytes, Bytes>> room_of_device(const OutOfMemoryMessage& m) {
  if (m.free) return std::pair(*m.free, *m.free);
  if (!m.capacity || !m.allocated) return std::nullopt;
  const Bytes held = *m.allocated + m.reserved_unallocated.value_or(Bytes{});
  // More than the request was not free, or it would have been served.
  return std::pair(Bytes{}, std::min(not_negative(*m.capacity - held), m.tried));
}

}  // namespace

bool is_limit_counted(const OutOfMemoryMessage& m) {
  return m.allowed && (m.allocated || (m.wording == OomWording::kMps && m.in_use));
}

std::optional<OomNeed> need_of(const OutOfMemoryMessage& m, Bytes counted) {
  auto room = room_of_device(m);
  if (is_limit_counted(m)) {
    const Bytes left = not_negative(*m.allowed - counted);
    room =
        room ? std::pair(std::min(room->first, left), std::min(room->second, left)) : std::pair(left, left);
  }
  if (!room) return std::nullopt;
  OomNeed need{.least_room = room->first, .most_room = room->second};
  const Bytes most = std::min(m.capacity.value_or(m.tried), m.allowed.value_or(m.tried));
  need.is_beyond_device = m.tried > most;
  const Bytes cached = m.reserved_unallocated.value_or(Bytes{}), tensors = m.allocated.value_or(Bytes{});
  need.least = not_negative(smallest_tensor(m) - need.most_room - cached);
  need.enough = not_negative(m.tried - need.least_room);
  if (!m.allocated) return need;
  need.missing = not_negative(need.least - tensors);
  need.enough = std::min(need.enough, tensors);
  return need;
}

}  // namespace plimsoll
