// Call stacks of a trace, each kept once: stacks are lists of frames, frames are lists of strings, and most
// events share both.
//
// Invariant: equal frames have one id, and so have equal stacks; the innermost frame comes first.
//
//   StackTable stacks;
//   const StackId id = stacks.add({{.name = "forward", .filename = "model.py", .line = 54}});
//   for (FrameId f : stacks.frames_of(id)) print(stacks.frame(f).name);
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/hash_index.h"

namespace plimsoll {

struct StackFrame {
  std::string name;      // function; of simulated events the op
  std::string filename;  // of simulated events the module path
  int line = 0;

  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

using FrameId = uint32_t;
using StackId = uint32_t;

class StackTable {
 public:
  FrameId add_frame(StackFrame frame);
  StackId add(std::span<const FrameId> frames);
  StackId add(std::initializer_list<StackFrame> frames);

  size_t size() const { return offsets_.size() - 1; }
  size_t num_frames() const { return frames_.size(); }
  const StackFrame& frame(FrameId id) const { return frames_[id]; }
  std::span<const FrameId> frames_of(StackId id) const {
    return {members_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }

  friend bool operator==(const StackTable& a, const StackTable& b);

 private:
  std::deque<StackFrame> frames_;
  std::vector<FrameId> members_;         // of all stacks, one after the other
  std::vector<uint64_t> offsets_ = {0};  // into members_; one more than stacks
  HashIndex frame_ids_, stack_ids_;
};

}  // namespace plimsoll
