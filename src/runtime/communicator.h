// The collectives that a program's ops need, over the ranks of its data-parallel group. Tensors are
// contiguous and on the CPU; sizes and dtypes are the same on every rank (the program is, but for offsets).
//
//   const std::unique_ptr<Work> work = communicator.all_gather(whole, part);   // whole is [ranks x part]
//   work->wait();
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace plimsoll::runtime {

// A collective under way. Waiting twice is harmless.
class Work {
 public:
  virtual ~Work() = default;
  virtual Result<void> wait() = 0;  // Errors: a rank is gone, the time is over
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Sums over the ranks.
  virtual std::unique_ptr<Work> all_reduce(at::Tensor& tensor) = 0;
  virtual std::unique_ptr<Work> reduce_scatter(at::Tensor& part, at::Tensor& whole) = 0;
  // `part` may be the rank's own slice of `whole`.
  virtual std::unique_ptr<Work> all_gather(at::Tensor& whole, at::Tensor& part) = 0;
};

}  // namespace plimsoll::runtime
