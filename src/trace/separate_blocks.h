// The trace of an allocator that gives every request a segment of its own, as a CPU's does in a tensor
// library's eyes: what is allocated is what is reserved, and nothing is cached.
//
//   SeparateBlocks blocks;
//   blocks.alloc(address, Bytes{4096}, stack, now);
//   blocks.free(address, now);
//   AllocationTrace trace = blocks.take();
//
// REQUIRES an address that is allocated is free, and the other way round. Not thread-safe.
#pragma once

#include <map>

#include "trace/allocation_trace.h"

namespace plimsoll {

class SeparateBlocks {
 public:
  StackTable& stacks() { return trace_.stacks; }

  void alloc(uint64_t address, Bytes bytes, StackId stack, Nanoseconds time);
  void free(uint64_t address, Nanoseconds time);
  // What a live block is for has turned out since.
  void set_stack(uint64_t address, StackId stack);
  bool is_live(uint64_t address) const { return live_.contains(address); }

  void begin(const std::string& name, Nanoseconds time);  // an annotation; ends the one before
  AllocationTrace take(Nanoseconds time);                 // with what is live as its last state

 private:
  struct Live {
    Bytes bytes;
    StackId stack = 0;
    size_t event = 0;  // its alloc
  };
  void end_annotation(Nanoseconds time);
  void record(AllocationAction action, uint64_t address, Bytes bytes, StackId stack, Nanoseconds time);

  AllocationTrace trace_;
  std::map<uint64_t, Live> live_;  // by address
  std::string annotation_;         // empty: none is open
};

}  // namespace plimsoll
