#include "runtime/communication/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace plimsoll::runtime {
namespace {

TEST(WorkQueue, RunsBesideTheCallerInOrder) {
  std::vector<int> order;
  std::atomic<bool> may_begin = false;
  WorkQueue queue({});
  const auto first = queue.submit([&]() -> Result<void> {
    while (!may_begin) std::this_thread::yield();
    order.push_back(1);
    return {};
  });
  const auto second = queue.submit([&]() -> Result<void> {
    order.push_back(2);
    return {};
  });
  may_begin = true;  // reached while the first waits for it
  EXPECT_TRUE(second->wait());
  EXPECT_TRUE(first->wait());
  EXPECT_TRUE(first->wait());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(WorkQueue, WhatATaskHoldsIsGoneWhenItsWaitReturns) {
  auto held = std::make_shared<int>(0);
  WorkQueue queue({});
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(queue.submit([held]() -> Result<void> { return {}; })->wait());
    ASSERT_EQ(held.use_count(), 1);
  }
}

TEST(WorkQueue, AfterAFailureNothingRuns) {
  bool has_run = false;
  WorkQueue queue({});
  const auto failing = queue.submit([]() -> Result<void> { return fail({.message = "broken"}); });
  const auto later = queue.submit([&]() -> Result<void> {
    has_run = true;
    return {};
  });
  EXPECT_EQ(later->wait().error().message, "broken");
  EXPECT_EQ(failing->wait().error().message, "broken");
  EXPECT_EQ(queue.failure()->message, "broken");
  EXPECT_FALSE(has_run);
}

TEST(WorkQueue, WhatIsSeenWhileNothingRunsFailsTheNext) {
  std::atomic<int> looks = 0;
  WorkQueue queue({.look = [&]() -> Result<void> {
                     if (++looks < 3) return {};
                     return fail({.message = "seen"});
                   },
                   .every = std::chrono::milliseconds(1)});
  EXPECT_FALSE(queue.failure());
  while (!queue.failure()) std::this_thread::yield();  // told without a task
  EXPECT_EQ(queue.failure()->message, "seen");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(queue.submit([]() -> Result<void> { return {}; })->wait().error().message, "seen");
  EXPECT_EQ(looks, 3);
}

TEST(WorkQueue, CountsTheTimeOfItsTasksOnly) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kIdle = std::chrono::milliseconds(200), kBusy = std::chrono::milliseconds(50);
  WorkQueue queue({});
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(kIdle);
  const auto task = [=]() -> Result<void> {
    std::this_thread::sleep_for(kBusy);
    return {};
  };
  const auto first = queue.submit(task), second = queue.submit(task);
  ASSERT_TRUE(first->wait().has_value() && second->wait().has_value());
  const double all = std::chrono::duration<double>(Clock::now() - start).count();
  EXPECT_GE(queue.busy_seconds(), std::chrono::duration<double>(2 * kBusy).count());
  EXPECT_LE(queue.busy_seconds(), all - std::chrono::duration<double>(kIdle).count());
}

}  // namespace
}  // namespace plimsoll::runtime
