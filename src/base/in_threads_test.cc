#include "base/in_threads.h"

#include <gtest/gtest.h>

#include <new>
#include <vector>

namespace plimsoll {
namespace {

TEST(InThreads, EachPieceIsDoneOnce) {
  for (const unsigned threads : {0U, 1U, 2U, 5U}) {
    std::vector<int> done(100);
    in_threads(threads, done.size(), [&](size_t i) { ++done[i]; });
    EXPECT_EQ(done, std::vector<int>(100, 1)) << threads;
  }
}

TEST(InThreads, WhatAnyThreadThrowsReachesTheCaller) {
  for (const unsigned threads : {1U, 3U})
    EXPECT_THROW(in_threads(threads, 64, [](size_t) { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace plimsoll
