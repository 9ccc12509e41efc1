#include "trace/stack_table.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace plimsoll {
namespace {

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6U) + (hash >> 2U);
  return hash * 0xff51afd7ed558ccdULL;
}

uint64_t hash_of(const StackFrame& frame) {
  const std::hash<std::string> hash;
  return mixed(mixed(hash(frame.name), hash(frame.filename)), static_cast<uint64_t>(frame.line));
}

}  // namespace

FrameId StackTable::add_frame(StackFrame frame) {
  const uint64_t hash = hash_of(frame);
  const auto [first, last] = frame_ids_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (frames_[it->second] == frame) return it->second;
  const auto id = static_cast<FrameId>(frames_.size());
  frames_.push_back(std::move(frame));
  frame_ids_.emplace(hash, id);
  return id;
}

StackId StackTable::add(std::span<const FrameId> frames) {
  uint64_t hash = frames.size();
  for (FrameId f : frames) hash = mixed(hash, f);
  const auto [first, last] = stack_ids_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (std::ranges::equal(frames_of(it->second), frames)) return it->second;
  const auto id = static_cast<StackId>(size());
  members_.insert(members_.end(), frames.begin(), frames.end());
  offsets_.push_back(members_.size());
  stack_ids_.emplace(hash, id);
  return id;
}

StackId StackTable::add(std::initializer_list<StackFrame> frames) {
  std::vector<FrameId> ids;
  for (const StackFrame& frame : frames) ids.push_back(add_frame(frame));
  return add(ids);
}

bool operator==(const StackTable& a, const StackTable& b) {
  return a.frames_ == b.frames_ && a.members_ == b.members_ && a.offsets_ == b.offsets_;
}

}  // namespace plimsoll
