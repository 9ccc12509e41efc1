// A thread that runs collectives one after another, in the order in which they were asked for, while the
// caller computes. After the first that fails no other runs: all return its error.
//
//   WorkQueue queue({});
//   const std::unique_ptr<Work> work = queue.submit([=] { return transfer(...); });
//   PLIMSOLL_CHECK(work->wait());
//
// What a task holds is let go of before its wait() returns.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/result.h"
#include "runtime/communicator.h"

namespace plimsoll::runtime {

struct IdleWatch {
  std::function<Result<void>()> look;  // called while nothing runs; its error is the queue's
  std::chrono::milliseconds every{500};
};

class WorkQueue {
 public:
  using Task = std::function<Result<void>()>;  // no exception leaves it

  explicit WorkQueue(IdleWatch watch);
  ~WorkQueue();  // after what was submitted
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  std::unique_ptr<Work> submit(Task task);
  double busy_seconds() const;           // that tasks which are over took
  std::optional<Error> failure() const;  // of a task or a look; from any thread, at any time

 private:
  class Handle;
  struct Entry;
  void run();
  bool next(std::unique_lock<std::mutex>& lock);
  void keep(const Result<void>& result);  // REQUIRES the lock

  const IdleWatch watch_;
  mutable std::mutex mutex_;
  std::condition_variable has_news_;
  std::deque<std::shared_ptr<Entry>> entries_;
  std::optional<Error> failure_;
  std::atomic<bool> has_failed_ = false;  // failure_ without the lock
  bool is_closing_ = false;
  std::chrono::steady_clock::duration busy_{};
  std::thread thread_;  // last: sees the others made
};

// A collective that was refused before it began.
std::unique_ptr<Work> failed_work(Error error);

}  // namespace plimsoll::runtime
