#include "trace/stack_table.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace plimsoll {
namespace {

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ULL;

// One rotation, one addition modulo 2, one product a word: stacks are hashed for every allocation of a trace.
uint64_t mixed(uint64_t hash, uint64_t value) { return (std::rotl(hash, 23) ^ value) * kOdd; }

uint64_t hash_of(std::span<const FrameId> frames) {
  uint64_t hash = frames.size();
  size_t i = 0;
  for (; i + 2 <= frames.size(); i += 2) hash = mixed(hash, uint64_t{frames[i]} << 32U | frames[i + 1]);
  if (i < frames.size()) hash = mixed(hash, frames[i]);
  return mixed(hash, hash >> 32U);
}

uint64_t hash_of(const StackFrame& frame) {
  const std::hash<std::string> hash;
  return mixed(mixed(hash(frame.name), hash(frame.filename)), static_cast<uint64_t>(frame.line));
}

}  // namespace

FrameId StackTable::add_frame(StackFrame frame) {
  const uint64_t hash = hash_of(frame);
  if (const auto known = frame_ids_.find(hash, [&](FrameId id) { return frames_[id] == frame; }))
    return *known;
  const auto id = static_cast<FrameId>(frames_.size());
  frames_.push_back(std::move(frame));
  frame_ids_.add(hash, id);
  return id;
}

StackId StackTable::add(std::span<const FrameId> frames) {
  const uint64_t hash = hash_of(frames);
  const auto is_same = [&](StackId id) { return std::ranges::equal(frames_of(id), frames); };
  if (const auto known = stack_ids_.find(hash, is_same)) return *known;
  const auto id = static_cast<StackId>(size());
  members_.insert(members_.end(), frames.begin(), frames.end());
  offsets_.push_back(members_.size());
  stack_ids_.add(hash, id);
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
