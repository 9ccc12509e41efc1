#include "base/in_threads.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace plimsoll {
namespace {

class Work {
 public:
  Work(size_t count, const std::function<void(size_t)>& piece) : count_(count), piece_(piece) {}

  void take() noexcept {
    try {
      for (size_t i = next_++; i < count_; i = next_++) piece_(i);
    } catch (...) {
      next_ = count_;
      const std::lock_guard lock(mutex_);
      if (!thrown_) thrown_ = std::current_exception();
    }
  }
  // REQUIRES no thread works any more.
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  const size_t count_;
  const std::function<void(size_t)>& piece_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr thrown_;
};

}  // namespace

void in_threads(unsigned threads, size_t count, const std::function<void(size_t)>& work) {
  Work shared(count, work);
  {
    std::vector<std::jthread> workers;
    try {
      for (unsigned t = 1; t < threads && t < count; ++t) workers.emplace_back([&] { shared.take(); });
    } catch (const std::system_error&) {
      // Those that are there do all of it.
    }
    shared.take();
  }
  shared.rethrow();
}

}  // namespace plimsoll
