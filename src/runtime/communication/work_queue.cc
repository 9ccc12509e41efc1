#include "runtime/communication/work_queue.h"

#include <utility>

namespace plimsoll::runtime {
namespace {

class FailedWork final : public Work {
 public:
  explicit FailedWork(Error error) : error_(std::move(error)) {}
  Result<void> wait() override { return fail(error_); }

 private:
  Error error_;
};

}  // namespace

std::unique_ptr<Work> failed_work(Error error) { return std::make_unique<FailedWork>(std::move(error)); }

struct WorkQueue::Entry {
  Task task;
  std::mutex mutex;
  std::condition_variable is_over;
  std::optional<Result<void>> result;

  void finish(Result<void> how) {
    task = nullptr;  // what it holds goes first
    const std::scoped_lock lock(mutex);
    result = std::move(how);
    is_over.notify_all();
  }
};

class WorkQueue::Handle final : public Work {
 public:
  explicit Handle(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}
  Result<void> wait() override {
    std::unique_lock lock(entry_->mutex);
    entry_->is_over.wait(lock, [&] { return entry_->result.has_value(); });
    return *entry_->result;
  }

 private:
  std::shared_ptr<Entry> entry_;
};

WorkQueue::WorkQueue(IdleWatch watch) : watch_(std::move(watch)), thread_([this] { run(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::scoped_lock lock(mutex_);
    is_closing_ = true;
  }
  has_news_.notify_all();
  thread_.join();
}

std::unique_ptr<Work> WorkQueue::submit(Task task) {
  auto entry = std::make_shared<Entry>();
  entry->task = std::move(task);
  {
    const std::scoped_lock lock(mutex_);
    entries_.push_back(entry);
  }
  has_news_.notify_all();
  return std::make_unique<Handle>(std::move(entry));
}

double WorkQueue::busy_seconds() const {
  const std::scoped_lock lock(mutex_);
  return std::chrono::duration<double>(busy_).count();
}

std::optional<Error> WorkQueue::failure() const {
  if (!has_failed_) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  return failure_;
}

void WorkQueue::keep(const Result<void>& result) {
  if (result) return;
  failure_ = result.error();
  has_failed_ = true;
}

// Waits for an entry, looking around meanwhile. False: the queue is closed and empty.
bool WorkQueue::next(std::unique_lock<std::mutex>& lock) {
  const auto has_news = [this] { return is_closing_ || !entries_.empty(); };
  while (!has_news_.wait_for(lock, watch_.every, has_news)) {
    if (!watch_.look || failure_) continue;
    lock.unlock();
    const Result<void> seen = watch_.look();
    lock.lock();
    keep(seen);
  }
  return !entries_.empty();
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  while (next(lock)) {
    const std::shared_ptr<Entry> entry = std::move(entries_.front());
    entries_.pop_front();
    if (failure_) {
      entry->finish(fail(*failure_));
      continue;
    }
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    Result<void> result = entry->task();
    lock.lock();
    busy_ += std::chrono::steady_clock::now() - start;
    keep(result);
    entry->finish(std::move(result));
  }
}

}  // namespace plimsoll::runtime
