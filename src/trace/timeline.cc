#include "trace/timeline.h"

#include <algorithm>
#include <utility>

namespace plimsoll {

TrackId Timeline::add_track(std::string name) {
  tracks.push_back(std::move(name));
  return static_cast<TrackId>(tracks.size() - 1);
}

NameId Timeline::add_name(const std::string& name) {
  const auto [place, is_new] = name_ids_.try_emplace(name, static_cast<NameId>(names.size()));
  if (is_new) names.push_back(name);
  return place->second;
}

Nanoseconds Timeline::end() const {
  Nanoseconds last{0};
  for (const TimelineSlice& slice : slices) last = std::max(last, slice.begin + slice.duration);
  if (!memory.empty()) last = std::max(last, memory.back().time);
  return last;
}

}  // namespace plimsoll
