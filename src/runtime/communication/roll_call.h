// Who is still there after a failure, as the ranks write it down in their store. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace plimsoll::runtime {

class RollCall {
 public:
  RollCall(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t ranks)
      : store_(std::move(store)), rank_(rank), ranks_(ranks) {}

  // Ranks that did not come within `wait`.
  std::vector<int64_t> gather(const std::string& name, std::chrono::milliseconds wait);
  bool is_called() const;  // a rank has failed
  // Tells of a failure, unless another did before; returns what the first one said.
  std::string call(const std::string& what);

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_, ranks_;
};

}  // namespace plimsoll::runtime
