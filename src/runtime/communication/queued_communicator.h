// A Communicator that runs its collectives one after another on a thread of its own (work_queue.h). Who
// derives says how one is run.
//
// REQUIRES of who derives: begin() when it is made, end() before anything that run() uses is gone.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/communication/collective.h"
#include "runtime/communication/work_queue.h"
#include "runtime/communicator.h"

namespace plimsoll::runtime {

class QueuedCommunicator : public Communicator {
 public:
  std::unique_ptr<Work> all_reduce(at::Tensor& tensor) final;
  std::unique_ptr<Work> reduce_scatter(at::Tensor& part, at::Tensor& whole) final;
  std::unique_ptr<Work> all_gather(at::Tensor& whole, at::Tensor& part) final;
  double seconds_under_way() const final { return queue_->busy_seconds(); }
  std::optional<Error> failure() const final { return queue_->failure(); }

 protected:
  void begin(IdleWatch watch) { queue_ = std::make_unique<WorkQueue>(std::move(watch)); }
  void end() { queue_.reset(); }  // after what was asked for

 private:
  virtual Result<void> run(const Collective& c) = 0;  // no exception leaves it
  std::unique_ptr<Work> start(CollectiveKind kind, const at::Tensor& whole, const at::Tensor& part);

  uint64_t sequence_ = 0;
  std::unique_ptr<WorkQueue> queue_;
};

}  // namespace plimsoll::runtime
