// Blocks that were freed while other streams may still use them: one queue per stream, as the allocator's
// CUDA events are. An event has passed when its stream has done all it was given before the free.
//
// Invariant: a block is in as many queues as it has pending events; times in a queue never decrease in real
// runs, and if they do, a later event waits for the earlier one (first in, first out). Source:
// c10/cuda/CUDACachingAllocator.cpp (insert_events, process_events).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "allocator/heap.h"

namespace plimsoll {

class StreamEvents {
 public:
  bool empty() const { return pending_ == 0; }

  // Tells that `stream` uses the block, in a graph's capture or not. Repetitions count once.
  void add_use(uint32_t block, HeapStream stream, bool is_in_capture = false);
  // The streams told of, which are forgotten: the block is being freed.
  std::vector<HeapStream> take_uses(uint32_t block);
  // The same without those that were told of in a capture, whose work is known to be done after it.
  std::vector<HeapStream> take_uses_before_capture(uint32_t block);

  void push(HeapStream stream, Nanoseconds passes_at, uint32_t block);

  // Calls passed(block) for each event that has passed by `now`, stream by stream, oldest first.
  template <typename Passed>
  void drain(Nanoseconds now, Passed passed) {
    drain_while([now](Nanoseconds passes_at) { return passes_at <= now; }, passed);
  }
  // The same for every event: the streams are waited for.
  template <typename Passed>
  void drain_all(Passed passed) {
    drain_while([](Nanoseconds) { return true; }, passed);
  }

 private:
  struct Event {
    Nanoseconds passes_at;
    uint32_t block = 0;
  };

  template <typename HasPassed, typename Passed>
  void drain_while(HasPassed has_passed, Passed passed) {
    for (auto& [stream, queue] : queues_) {
      while (!queue.empty() && has_passed(queue.front().passes_at)) {
        const uint32_t block = queue.front().block;
        queue.pop_front();
        --pending_;
        passed(block);
      }
    }
  }

  struct Use {
    HeapStream stream = kDefaultStream;
    bool is_in_capture = false;
  };

  std::vector<HeapStream> take_uses(uint32_t block, bool takes_captured);

  std::map<uint32_t, std::vector<Use>> uses_;  // by block that is still held
  std::map<HeapStream, std::deque<Event>> queues_;
  size_t pending_ = 0;
};

}  // namespace plimsoll
