#include "report/oom_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Of a device of 80 GiB that is full.
OutOfMemoryMessage message(Bytes tried, Bytes free, Bytes allocated, Bytes unallocated) {
  return {.kind = "CUDA",
          .tried = tried,
          .device = 0,
          .capacity = kGiB * 80,
          .free = free,
          .in_use = kGiB * 80 - free,
          .allocated = allocated,
          .reserved_unallocated = unallocated};
}

TEST(OomPage, AJobThatIsTooLarge) {
  const auto findings = findings_of(message(kGiB * 2, kGiB, kGiB * 78, kMiB * 512));
  EXPECT_THAT(findings, ElementsAre(HasSubstr("Fragmentation isn't the cause: only 512.00 MiB"),
                                    HasSubstr("at least 1.00 GiB less had to be held")));
}

TEST(OomPage, Fragmentation) {
  EXPECT_THAT(findings_of(message(kGiB * 2, kGiB, kGiB * 73, kGiB * 5)),
              Contains(HasSubstr("5.00 GiB lay cached in pieces that were each too small for 2.00 GiB")));
  EXPECT_THAT(findings_of(message(kGiB * 2, kGiB, kGiB * 76, kGiB)),
              Contains(HasSubstr("1.00 GiB cached and 1.00 GiB free together would have been enough")));
}

TEST(OomPage, MemoryBesideTheAllocator) {
  EXPECT_THAT(findings_of(message(kGiB * 2, kGiB, kGiB * 70, kMiB)),
              Contains(HasSubstr("9.00 GiB is this process's but not of PyTorch's allocator")));
  EXPECT_THAT(findings_of(message(kGiB * 2, kGiB, kMiB * 1024 * 78 + kMiB * 100, kMiB)),
              Not(Contains(HasSubstr("not of PyTorch's allocator"))));
}

TEST(OomPage, OtherProcesses) {
  OutOfMemoryMessage m = message(kGiB * 2, kGiB, kGiB * 60, kMiB);
  m.other_processes = {{7, kGiB * 8}, {8, kGiB * 4}};
  m.in_use = kGiB * 61;
  EXPECT_THAT(findings_of(m), Contains(HasSubstr("Other processes hold 12.00 GiB of this GPU")));
  m.other_processes = {{7, kGiB * 79}};
  m.in_use = std::nullopt;
  EXPECT_THAT(findings_of(m), Contains(HasSubstr("Process 7 holds 79.00 GiB: another one, or this one")));
}

TEST(OomPage, Limits) {
  EXPECT_THAT(findings_of(message(kGiB * 90, kGiB, kGiB * 70, kMiB)),
              Contains(HasSubstr("larger than the device, 80.00 GiB")));
  EXPECT_THAT(findings_of(message(kGiB, kGiB * 40, kGiB * 39, kMiB)),
              Contains(HasSubstr("40.00 GiB was free when the message was written")));
  OutOfMemoryMessage allowed = message(kGiB, kGiB * 40, kGiB * 39, kMiB);
  allowed.allowed = kGiB * 40;
  EXPECT_THAT(findings_of(allowed), Contains(HasSubstr("The process may use 40.00 GiB")));
  EXPECT_THAT(findings_of(allowed), Not(Contains(HasSubstr("was free when"))));
}

}  // namespace
}  // namespace plimsoll
