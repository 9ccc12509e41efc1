#include "runtime/communication/queued_communicator.h"

#include <utility>

namespace plimsoll::runtime {

std::unique_ptr<Work> QueuedCommunicator::all_reduce(at::Tensor& tensor) {
  return start(CollectiveKind::kAllReduce, tensor, {});
}
std::unique_ptr<Work> QueuedCommunicator::reduce_scatter(at::Tensor& part, at::Tensor& whole) {
  return start(CollectiveKind::kReduceScatter, whole, part);
}
std::unique_ptr<Work> QueuedCommunicator::all_gather(at::Tensor& whole, at::Tensor& part) {
  return start(CollectiveKind::kAllGather, whole, part);
}

std::unique_ptr<Work> QueuedCommunicator::start(CollectiveKind kind, const at::Tensor& whole,
                                                const at::Tensor& part) {
  Result<Collective> made = make_collective(kind, whole, part, size());
  if (!made) return failed_work(made.error());
  made->header.sequence = ++sequence_;
  return queue_->submit([this, c = *std::move(made)] { return run(c); });
}

}  // namespace plimsoll::runtime
