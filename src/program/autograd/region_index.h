// What a call of a module does with the locals around it: which statements are its own, what it reads from
// outside, and which locals it changes. Looked up by checkpoints, which play a call again.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace plimsoll::autograd {

struct CallRange {
  uint32_t begin = 0, end = 0;  // statements of kBegin and kEnd
};

struct CallTensors {
  std::vector<TensorId> outside;  // given by keyword, then those its ops read, in the order of use
  std::vector<TensorId> touched;  // read, made or dropped, by id
};

class RegionIndex {
 public:
  explicit RegionIndex(const Program& forward);

  const CallRange& range(RegionId id) const { return ranges_[id.value]; }
  const CallTensors& tensors(RegionId id);  // found when it is first asked for

 private:
  const Program& f_;
  std::vector<CallRange> ranges_;
  std::vector<CallTensors> tensors_;
  std::vector<bool> is_found_;
  std::vector<uint32_t> seen_in_;  // by tensor: 1 + the region that saw it last
};

}  // namespace plimsoll::autograd
