// A memory snapshot of any size, as `torch.cuda.memory._dump_snapshot()` of PyTorch 2.13 writes it: Python's
// pickler at protocol 4 memoizes every dict, list, tuple and string, frames are shared, each allocation has a
// list of frames of its own that its frees share. The events are those of `training_step_events()`, played by
// the allocator's twin; a steady step is repeated, as it is in a real trace.
//
//   generate_snapshot(20'000'000, [&](std::string_view bytes) { out.write(bytes.data(), bytes.size()); });
//
// Source: torch/csrc/cuda/Module.cpp (order and types of the fields), Lib/pickle.py of Python 3.12.
// Does not write: annotations, settings other than the default.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "allocator/caching_heap.h"
#include "training_step_events.h"

namespace plimsoll {

// Opcodes as Python's pickler chooses them.
class PythonPickle {
 public:
  using Sink = std::function<void(std::string_view)>;
  explicit PythonPickle(Sink sink) : sink_(std::move(sink)) { bytes_ = "\x80\x04"; }

  uint32_t begin(char empty) {
    bytes_ += empty;
    const uint32_t memo = memoize();
    bytes_ += '(';
    return memo;
  }
  void end(char opcode) {
    bytes_ += opcode;
    if (bytes_.size() < kPiece) return;
    sink_(bytes_);
    bytes_.clear();
  }
  void next_batch(char opcode) { end(opcode), bytes_ += '('; }
  uint32_t text(std::string_view s) {
    bytes_ += '\x8c';
    number(s.size(), 1);
    bytes_ += s;
    return memoize();
  }
  void key(std::string_view s) {
    const auto known = keys_.find(s);
    if (known != keys_.end()) return use(known->second);
    keys_.emplace(s, text(s));
  }
  void use(uint32_t memo) {
    bytes_ += memo < 256 ? 'h' : 'j';
    number(memo, memo < 256 ? 1 : 4);
  }
  void integer(uint64_t value) {
    if (value < (1U << 8U)) return bytes_ += 'K', number(value, 1);
    if (value < (1U << 16U)) return bytes_ += 'M', number(value, 2);
    if (value < (1U << 31U)) return bytes_ += 'J', number(value, 4);
    int length = 1;
    while (length < 9 && value >> (8 * length - 1) != 0) ++length;
    bytes_ += '\x8a';
    number(static_cast<uint64_t>(length), 1);
    number(value, length);
  }
  void pair() {  // (0, 0)
    bytes_ += std::string_view("K\0K\0\x86", 5);
    memoize();
  }
  void finish() {
    bytes_ += '.';
    sink_(bytes_);
  }

 private:
  static constexpr size_t kPiece = size_t{1} << 16;

  uint32_t memoize() {
    bytes_ += '\x94';
    return next_memo_++;
  }
  void number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  Sink sink_;
  std::string bytes_;
  std::unordered_map<std::string_view, uint32_t> keys_;  // of literals
  uint32_t next_memo_ = 0;
};

class SnapshotGenerator {
 public:
  explicit SnapshotGenerator(PythonPickle::Sink sink) : pickle_(std::move(sink)) { play_steps(); }

  // At least so many events: whole steps.
  uint64_t generate(uint64_t events) {
    pickle_.begin('}');
    pickle_.key("device_traces"), pickle_.begin(']'), pickle_.begin(']');
    for (const AllocationEvent& event : first_steps_.events) write_event(event);
    while (written_ < events)
      for (const AllocationEvent& event : steady_step_.events) write_event(event);
    pickle_.end('e'), pickle_.end('e');
    pickle_.key("segments"), pickle_.begin(']');
    for (const TraceSegment& segment : first_steps_.segments) write_segment(segment);
    pickle_.end('e'), pickle_.end('u');
    pickle_.finish();
    return written_;
  }

 private:
  static constexpr uint32_t kFrames = 4000, kDepth = 32;

  void play_steps() {
    const TrainingStepEvents events = training_step_events({.layers = 32});
    std::vector<BlockId> blocks(events.tensors);
    AllocationRecorder recorder(first_steps_);
    CachingHeap heap({.recorder = &recorder});
    const auto play = [&](const std::vector<HeapEvent>& step) {
      for (const HeapEvent& e : step)
        if (e.is_alloc)
          blocks[e.tensor] = *heap.alloc(Bytes{e.size}, kDefaultStream);
        else
          heap.free(blocks[e.tensor]);
    };
    play(events.load);
    play(events.step);
    play(events.step);
    const size_t before = first_steps_.events.size();
    play(events.step);
    steady_step_.events.assign(first_steps_.events.begin() + static_cast<ptrdiff_t>(before),
                               first_steps_.events.end());
    first_steps_.events.resize(before);
    first_steps_.segments = heap.segments();
  }

  uint32_t write_frame(uint32_t number) {
    const uint32_t memo = pickle_.begin('}');
    pickle_.key("name"), pickle_.text("forward_" + std::to_string(number));
    pickle_.key("filename");
    pickle_.text("/opt/venv/lib/python3.12/site-packages/model/layer_" + std::to_string(number % 97) + ".py");
    pickle_.key("line"), pickle_.integer(number % 1500);
    pickle_.end('u');
    return memo;
  }

  uint32_t write_stack(uint64_t seed) {
    const uint32_t memo = pickle_.begin(']');
    for (uint32_t depth = 0; depth < kDepth; ++depth) {
      const auto frame = static_cast<uint32_t>((depth * 131 + seed * (depth < 10 ? 7 : 0)) % kFrames);
      if (frames_.contains(frame))
        pickle_.use(frames_[frame]);
      else
        frames_[frame] = write_frame(frame);
    }
    pickle_.end('e');
    return memo;
  }

  void write_event(const AllocationEvent& event) {
    if (written_ > 0 && written_ % 1000 == 0) pickle_.next_batch('e');
    const bool is_segment = event.action == AllocationAction::kSegmentAlloc;
    pickle_.begin('}');
    pickle_.key("action"), pickle_.key(name_of(event.action));
    pickle_.key("addr"), pickle_.integer(event.address);
    pickle_.key("size"), pickle_.integer(static_cast<uint64_t>(event.bytes.value));
    pickle_.key("stream"), pickle_.integer(event.stream);
    pickle_.key("time_us"), pickle_.integer(1'700'000'000'000'000 + 3 * written_);
    pickle_.key("compile_context"), pickle_.text("N/A");
    pickle_.key("user_metadata"), pickle_.key("");
    pickle_.key("pool_id"), pickle_.pair();
    pickle_.key("frames");
    if (event.action == AllocationAction::kAlloc || is_segment)
      stacks_[event.address] = write_stack(written_ % 5003);
    else
      pickle_.use(stacks_[event.address]);
    pickle_.end('u');
    ++written_;
  }

  void write_segment(const TraceSegment& segment) {
    pickle_.begin('}');
    pickle_.key("device"), pickle_.integer(0);
    pickle_.key("address"), pickle_.integer(segment.address);
    pickle_.key("total_size"), pickle_.integer(static_cast<uint64_t>(segment.bytes.value));
    pickle_.key("stream"), pickle_.integer(segment.stream);
    pickle_.key("segment_type"), pickle_.key(segment.is_large ? "large" : "small");
    pickle_.key("blocks"), pickle_.begin(']');
    for (const TraceBlock& block : segment.blocks) {
      pickle_.begin('}');
      pickle_.key("address"), pickle_.integer(block.address);
      pickle_.key("size"), pickle_.integer(static_cast<uint64_t>(block.bytes.value));
      pickle_.key("requested_size"), pickle_.integer(static_cast<uint64_t>(block.requested.value));
      pickle_.key("state"), pickle_.key(block.state == BlockState::kFree ? "inactive" : "active_allocated");
      pickle_.end('u');
    }
    pickle_.end('e'), pickle_.end('u');
  }

  static std::string_view name_of(AllocationAction action) {
    if (action == AllocationAction::kSegmentAlloc) return "segment_alloc";
    if (action == AllocationAction::kAlloc) return "alloc";
    return action == AllocationAction::kFreeRequested ? "free_requested" : "free_completed";
  }

  PythonPickle pickle_;
  AllocationTrace first_steps_, steady_step_;
  std::unordered_map<uint32_t, uint32_t> frames_;  // to the pickle's memo
  std::unordered_map<uint64_t, uint32_t> stacks_;  // of the block at an address, likewise
  uint64_t written_ = 0;
};

inline uint64_t generate_snapshot(uint64_t events, PythonPickle::Sink sink) {
  return SnapshotGenerator(std::move(sink)).generate(events);
}

}  // namespace plimsoll
