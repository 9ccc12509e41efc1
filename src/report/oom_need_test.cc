#include "report/oom_need.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

Bytes gib(const char* text) { return *parse_bytes(std::string(text) + " GiB"); }

// Of a device of 80 GiB without a limit.
OomNeed need(Bytes tried, Bytes free, Bytes allocated, Bytes cached) {
  const OutOfMemoryMessage m = {.kind = "CUDA",
                                .tried = tried,
                                .capacity = kGiB * 80,
                                .free = free,
                                .allocated = allocated,
                                .reserved_unallocated = cached};
  return *need_of(m, allocated + cached);
}

// As near as the segment of a tensor tells its size.
void expect_about(Bytes actual, Bytes expected) {
  EXPECT_LE(actual, expected);
  EXPECT_GE(actual + kMiB * 2, expected);
}

TEST(OomNeed, TheCacheMayServeOrNot) {
  const OomNeed served = need(kGiB * 30, kGiB * 20, kGiB * 45, gib("13.4"));
  EXPECT_EQ(served.least, Bytes{});
  EXPECT_EQ(served.enough, kGiB * 10);
  const OomNeed not_served = need(kGiB * 14, kGiB * 10, kGiB * 60, gib("1.02"));
  expect_about(not_served.least, gib("2.98"));
  EXPECT_EQ(not_served.enough, kGiB * 4);
  EXPECT_EQ(not_served.missing, Bytes{});
}

// With all tensors gone their segments are whole: 8 of 10 GiB, beside 3 that are cached, and nothing is
// missing.
TEST(OomNeed, NoMoreThanAllTensorsHasToGo) {
  const OomNeed all = need(kGiB * 30, kGiB * 20, kGiB * 8, kGiB * 3);
  expect_about(all.least, kGiB * 7);
  EXPECT_EQ(all.enough, kGiB * 8);
  EXPECT_EQ(all.missing, Bytes{});
  expect_about(need(kGiB * 30, kGiB * 20, kGiB * 4, kGiB * 3).missing, kGiB * 3);
}

TEST(OomNeed, BeyondTheDeviceOrTheLimit) {
  EXPECT_TRUE(need(kGiB * 500, kGiB * 70, kGiB * 8, kGiB).is_beyond_device);
  EXPECT_FALSE(need(kGiB * 80, kGiB * 70, kGiB * 8, kGiB).is_beyond_device);
  const OutOfMemoryMessage limited = {.tried = kGiB * 4,
                                      .capacity = kGiB * 80,
                                      .free = kGiB * 70,
                                      .allowed = kGiB * 8,
                                      .allocated = kGiB * 6,
                                      .reserved_unallocated = kGiB};
  const OomNeed need = *need_of(limited, kGiB * 7);
  EXPECT_FALSE(need.is_beyond_device);
  EXPECT_EQ(need.most_room, kGiB);
  EXPECT_EQ(need.enough, kGiB * 3);
  expect_about(need.least, kGiB * 2);
}

TEST(OomNeed, WhatIsFreeMayNotBeSaid) {
  const OutOfMemoryMessage m = {.kind = "XPU",
                                .tried = kGiB * 3,
                                .capacity = kGiB * 16,
                                .allocated = kGiB * 13,
                                .reserved_unallocated = kGiB};
  const OomNeed need = *need_of(m, kGiB * 14);
  EXPECT_EQ(need.least_room, Bytes{});
  EXPECT_EQ(need.most_room, kGiB * 2);
  EXPECT_EQ(need.least, Bytes{});
  EXPECT_EQ(need.enough, kGiB * 3);
  EXPECT_FALSE(need_of({.tried = kGiB}, Bytes{}));
}

}  // namespace
}  // namespace plimsoll
