// What a schedule of micro-batches needs of the training run around it.
#pragma once

#include <string_view>

#include "frameworks/megatron/micro_batches.h"

namespace plimsoll::megatron {

class ScheduleHost {
 public:
  virtual ~ScheduleHost() = default;
  virtual void begin(std::string_view phase, int64_t number) = 0;  // "fwd", "bwd", "x"
  virtual Value receive() = 0;                                     // a buffer for what another stage sends
  virtual void returned(InFlight& batch) = 0;                      // forward_step's loss and token count
  virtual void release_token_count() = 0;
};

// What the model keeps of its last call (set_input_tensor); once its backward has run, the gradient too.
struct ModelInput {
  Value tensor, gradient;
};

}  // namespace plimsoll::megatron
