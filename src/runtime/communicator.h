// The collectives that a program's ops need, over the ranks of its data-parallel group. Tensors are
// contiguous, fp64, fp32 or bf16 and on the CPU; sizes and dtypes are the same on every rank (the program is,
// but for offsets). Every rank calls the same collectives in the same order; a rank that doesn't is an error.
// A rank that leaves while others compute is one too: whoever is ready first waits for the others.
//
//   const std::unique_ptr<Work> work = communicator.all_gather(whole, part);   // whole is [ranks x part]
//   ... compute ...
//   PLIMSOLL_CHECK(work->wait());
//
// Sums add the ranks' values in the order of the ranks, bf16 in fp32 (and rounded once, at the end): the same
// bits on every rank and in every run, and the same whether a sum is reduced whole or scattered.
// Implementations: communication/in_process.h (threads), communication/gloo.h (processes). NCCL is another
// one, behind USE_C10D_NCCL; not there yet.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll::runtime {

// A collective under way. Its tensors must not be touched before wait() returns. Waiting twice is harmless.
class Work {
 public:
  virtual ~Work() = default;
  virtual Result<void>
  wait() = 0;  // Errors: a rank is gone, the time is over, ranks differ in what they call
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
  // So far: what collectives took, waited for or not.
  virtual double seconds_under_way() const = 0;
  // Why no collective will succeed any more, known without calling one: a rank that computes looks here.
  virtual std::optional<Error> failure() const = 0;
  virtual std::vector<std::string> notes() const { return {}; }  // what isn't as fast as it could be
};

}  // namespace plimsoll::runtime
