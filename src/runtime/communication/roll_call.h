// Who is still there after a failure, as the ranks write it down in their store. Not thread-safe, but
// give_up().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
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
  // After a call: who is gone, the same on all that are there. Rank 0, which may be the one that keeps the
  // store, decides after `wait`, and stays until the others have read it, at most as long again. Where it is
  // gone itself each rank has what it saw.
  std::vector<int64_t> find_missing(std::chrono::milliseconds wait);
  void give_up() { is_given_up_ = true; }  // waits end now: nobody wants to know any more

 private:
  std::vector<int64_t> others() const;
  void say(const std::string& name);
  // Those of `ranks` that haven't said `name` in the end: after `wait`, or when there is a verdict, if that
  // is enough.
  std::vector<int64_t> wait_for(const std::string& name, std::vector<int64_t> ranks,
                                std::chrono::milliseconds wait, bool ends_with_verdict = false);
  std::vector<int64_t> decide(std::chrono::milliseconds wait);
  std::optional<std::vector<int64_t>> verdict();

  c10::intrusive_ptr<c10d::Store> store_;
  int64_t rank_, ranks_;
  std::atomic<bool> is_given_up_ = false;
};

}  // namespace plimsoll::runtime
