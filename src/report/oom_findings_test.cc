#include "report/oom_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/oom_advice.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

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

TEST(OomFindings, AJobThatIsTooLarge) {
  EXPECT_THAT(
      findings_of(message(kGiB * 2, kGiB, kGiB * 78, kMiB * 512)),
      ElementsAre(
          AllOf(HasSubstr("The job's own tensors hold 78.00 GiB (97.5 % of the device)"),
                HasSubstr("freeing 1.00 GiB, in whole segments, would have been enough; with an unfragmented "
                          "cache 510.00 MiB.")),
          HasSubstr("Fragmentation isn't the cause: 512.00 MiB was cached and unused and 1.00 GiB")));
}

TEST(OomFindings, FragmentationThatDecides) {
  const auto findings = findings_of(message(kGiB * 2, kGiB, kGiB * 71, kGiB * 7));
  EXPECT_THAT(findings[0],
              AllOf(HasSubstr("7.00 GiB (8.8 % of the device) lay cached and could not serve the request"),
                    HasSubstr("Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. The request would most "
                              "likely have been served then. At most 6.00 GiB would be left")));
  EXPECT_THAT(
      findings_of(message(kGiB * 7, kGiB * 2, kGiB * 72, kGiB * 5))[0],
      AllOf(
          HasSubstr(
              "5.00 GiB (6.2 % of the device) cached and 2.00 GiB to be had together would have been enough"),
          HasSubstr("may have been served"), Not(HasSubstr("most likely"))));
}

// What a CUDA graph's pool has cached serves no one else.
TEST(OomFindings, PrivatePoolsMakeItLessLikely) {
  OutOfMemoryMessage m = message(kGiB * 2, kGiB, kGiB * 71, kGiB * 7);
  m.private_pools = kGiB;
  EXPECT_THAT(findings_of(m)[0], AllOf(HasSubstr("may have been served"), Not(HasSubstr("most likely"))));
}

TEST(OomFindings, LittleCachedIsNeverTheFirstCause) {
  // Another process holds 38 of 39 GiB.
  OutOfMemoryMessage m = message(kMiB * 2, kMiB, kMiB * 500, kMiB * 12);
  m.capacity = kGiB * 39;
  m.in_use = kMiB * 900;
  m.processes = {{7, kGiB * 38}};
  const auto findings = findings_of(m);
  EXPECT_THAT(findings[0], HasSubstr("Other processes hold 38.00 GiB"));
  EXPECT_THAT(findings, Contains(AllOf(HasSubstr("Fragmentation: 12.00 MiB"),
                                       HasSubstr("At most 13.00 MiB would be left"))));
  // The job's tensors hold all.
  OutOfMemoryMessage full = message(kMiB * 20, kMiB, kGiB * 15, kMiB * 61);
  full.capacity = *parse_bytes("15.9 GiB");
  full.in_use = *full.capacity;
  EXPECT_THAT(findings_of(full)[0], HasSubstr("The job's own tensors hold 15.00 GiB (94.3 % of the device)"));
  EXPECT_THAT(findings_of(full), Contains(HasSubstr("At most 61.00 MiB would be left")));
}

// 2.5 GiB are 3 % of the device, and 125 times what was asked for.
TEST(OomFindings, MuchCachedOfALargeDeviceHasAdviceToo) {
  const auto findings = findings_of(message(kMiB * 20, kMiB * 5, kGiB * 76, kGiB * 5 / 2));
  EXPECT_THAT(findings,
              Contains(AllOf(HasSubstr("Fragmentation: 2.50 GiB"), HasSubstr("expandable_segments:True"),
                             HasSubstr("most likely have been served then"),
                             HasSubstr("At most 2.50 GiB would be left"))));
  EXPECT_THAT(findings[0],
              HasSubstr("freeing 15.00 MiB, in whole segments, would have been enough; with an unfragmented "
                        "cache none."));
}

TEST(OomFindings, WhatOthersHoldIsNotTheJobsToGive) {
  OutOfMemoryMessage m = message(kGiB * 10, kGiB, kGiB * 7, kMiB * 512);
  m.in_use = kGiB * 8;
  m.processes = {{7, kGiB * 70}};
  EXPECT_THAT(findings_of(m),
              Contains(HasSubstr("Without any of them the request would still miss 1.50 GiB")));
}

// Of an older PyTorch for XPU, and of a line that was cut off.
TEST(OomFindings, WhatTheTextDoesNotSayIsNamed) {
  OutOfMemoryMessage xpu = {.kind = "XPU",
                            .tried = *parse_bytes("1.20 GiB"),
                            .capacity = kGiB * 16,
                            .allocated = kGiB * 14,
                            .reserved_unallocated = kMiB * 200};
  EXPECT_THAT(
      findings_of(xpu),
      ElementsAre(
          AllOf(HasSubstr("The job's own tensors hold 14.00 GiB"), HasSubstr("freeing 1.20 GiB, in whole"),
                HasSubstr("and all that PyTorch doesn't hold, none.")),
          HasSubstr("Whether fragmentation decided can't be told: 200.00 MiB"),
          AllOf(HasSubstr("doesn't say what of the device was free"), HasSubstr("are bounds"))));
  xpu.tried = kGiB * 3;
  EXPECT_THAT(findings_of(xpu), Contains(AllOf(HasSubstr("PyTorch doesn't hold, 1022.00 MiB."),
                                               HasSubstr("freeing 3.00 GiB"))));
  EXPECT_THAT(findings_of({.kind = "CUDA", .tried = kGiB * 2}),
              ElementsAre(AllOf(
                  HasSubstr("doesn't say the size of the device, what of the device was free, what tensors "
                            "held, what was cached"),
                  HasSubstr("can't be told. Paste the whole message"))));
}

TEST(OomFindings, MemoryBesideTheAllocator) {
  EXPECT_THAT(findings_of(message(kGiB * 2, kGiB, kGiB * 70, kMiB))[0],
              HasSubstr("9.00 GiB is this process's but not of PyTorch's allocator"));
  EXPECT_THAT(findings_of(message(kGiB * 2, kGiB, kMiB * 1024 * 78 + kMiB * 100, kMiB)),
              Not(Contains(HasSubstr("not of PyTorch's allocator"))));
}

TEST(OomFindings, OtherProcesses) {
  OutOfMemoryMessage m = message(kGiB * 2, kGiB, kGiB * 60, kMiB);
  m.processes = {{7, kGiB * 8}, {8, kGiB * 4}};
  m.in_use = kGiB * 61;
  EXPECT_THAT(findings_of(m)[0], HasSubstr("Other processes hold 12.00 GiB of this GPU"));
  m.processes = {{7, kGiB * 79}};
  m.in_use = std::nullopt;
  EXPECT_THAT(findings_of(m),
              Contains(HasSubstr("Process 7 is this one, as it is numbered outside of its container")));
  EXPECT_THAT(findings_of(m), Not(Contains(HasSubstr("Other processes"))));
  m.processes = {};
  EXPECT_THAT(findings_of(m)[0],
              AllOf(HasSubstr("19.00 GiB is neither free nor PyTorch's"), HasSubstr("nvidia-smi")));
}

TEST(OomFindings, ALimitIsNamedFirst) {
  OutOfMemoryMessage m = message(kGiB, kGiB * 40, kGiB * 39, kMiB * 120);
  m.allowed = kGiB * 40;
  const auto findings = findings_of(m);
  EXPECT_THAT(findings[0], AllOf(HasSubstr("The limit of 40.00 GiB was reached"),
                                 HasSubstr("a larger fraction would do")));
  EXPECT_THAT(findings,
              Contains(HasSubstr("Fragmentation: 120.00 MiB (0.1 % of the device) cached and 904.00 MiB "
                                 "to be had together")));
  EXPECT_THAT(findings, Not(Contains(HasSubstr("was free when"))));
  // As rounded as a message is: 1017.01 and 54.99 MiB, 2 more than 1.05 GiB would not quite reach.
  OutOfMemoryMessage tight =
      message(kMiB * 2, kGiB * 20, *parse_bytes("1017.01 MiB"), *parse_bytes("54.99 MiB"));
  tight.allowed = *parse_bytes("1.05 GiB");
  EXPECT_THAT(findings_of(tight)[0], HasSubstr("The limit of 1.05 GiB was reached"));
  // One that isn't reached doesn't hide what was.
  OutOfMemoryMessage wide = message(kGiB * 2, kMiB, kGiB * 77, kMiB);
  wide.allowed = kGiB * 80;
  EXPECT_THAT(findings_of(wide)[0], HasSubstr("The job's own tensors"));
  EXPECT_THAT(findings_of(wide), Contains(HasSubstr("may use 80.00 GiB, which it hasn't reached")));
}

TEST(OomFindings, EnoughFreeIsNoFragmentation) {
  const auto findings = findings_of(message(kGiB * 2, *parse_bytes("62.67 GiB"), kGiB * 16, kMiB * 120));
  EXPECT_THAT(findings, ElementsAre(AllOf(HasSubstr("62.67 GiB was free when the message was written"),
                                          HasSubstr("Neither fragmentation nor the cache is to blame"))));
}

TEST(OomFindings, RequestsAndHoldingsBeyondTheDevice) {
  const auto larger = findings_of(message(kGiB * 500, kGiB * 70, kGiB * 8, kMiB * 600));
  EXPECT_THAT(larger[0],
              HasSubstr("500.00 GiB, is larger than the device, 80.00 GiB: no memory that is given "
                        "back and no setting makes it fit"));
  EXPECT_THAT(larger, Not(Contains(HasSubstr("would have been enough"))));
  OutOfMemoryMessage limited = message(kGiB * 50, kGiB * 70, kGiB * 8, kMiB * 600);
  limited.allowed = kGiB * 40;
  EXPECT_THAT(findings_of(limited), Contains(HasSubstr("larger than what the process may use, 40.00 GiB")));
  EXPECT_THAT(findings_of(limited), Not(Contains(HasSubstr("would have been enough"))));
  OutOfMemoryMessage moved = message(kMiB * 42, Bytes{}, kGiB * 100, kGiB * 6);
  moved.in_use.reset();  // which Windows' driver doesn't say
  EXPECT_THAT(findings_of(moved)[0],
              AllOf(HasSubstr("PyTorch holds 106.00 GiB on a device of 80.00 GiB"), HasSubstr("Windows")));
}

// Not even whether there was room: a driver that says what it can't be is believed in nothing.
TEST(OomFindings, NothingRestsOnWhatIsContradicted) {
  OutOfMemoryMessage m = message(kGiB * 2, kGiB * 900, kGiB * 69, kMiB * 512);
  m.in_use = kGiB;
  m.processes = {{7, kGiB * 4}};
  EXPECT_THAT(findings_of(m), ElementsAre(HasSubstr("Figures of the message contradict each other"),
                                          HasSubstr("Process 7 holds 4.00 GiB. The sums allow both")));
  // What the other figures say still counts.
  OutOfMemoryMessage pools = message(kGiB * 2, kGiB, kGiB * 10, kMiB * 512);
  pools.in_use = kGiB * 11;
  pools.processes = {{7, kGiB * 68}};
  pools.private_pools = kGiB * 12;
  EXPECT_THAT(findings_of(pools),
              AllOf(Contains(HasSubstr("Other processes hold 68.00 GiB")),
                    Contains(HasSubstr("Fragmentation isn't the cause: 512.00 MiB was cached")),
                    Not(Contains(HasSubstr("tensors hold")))));
  OutOfMemoryMessage limited = message(kGiB * 2, kGiB, kGiB * 10, kMiB * 512);
  limited.private_pools = kGiB * 12;
  limited.allowed = kGiB * 2;
  EXPECT_THAT(findings_of(limited), Not(Contains(HasSubstr("2.00 GiB was reached"))));
  EXPECT_THAT(findings_of(limited), Not(Contains(HasSubstr("hasn't reached"))));
}

TEST(OomFindings, OfMpsTheLimitAndMetalsOwn) {
  const OutOfMemoryMessage m = {.wording = OomWording::kMps,
                                .kind = "MPS",
                                .tried = kMiB * 292,
                                .in_use = *parse_bytes("26.92 GiB"),
                                .allowed = *parse_bytes("27.00 GiB"),
                                .allocated = *parse_bytes("9.57 GiB")};
  const auto findings = findings_of(m);
  EXPECT_THAT(findings[0], AllOf(HasSubstr("MPS lets this process have 27.00 GiB and it has 26.92 GiB"),
                                 HasSubstr("PYTORCH_MPS_HIGH_WATERMARK_RATIO")));
  EXPECT_THAT(findings[1],
              HasSubstr("17.35 GiB is this process's but not of PyTorch's allocator: Metal's own"));
  EXPECT_THAT(findings, SizeIs(3));
}

TEST(OomAdvice, NamesWhatThatVersionKnows) {
  OutOfMemoryMessage m = message(kGiB * 2, kGiB, kGiB * 71, kGiB * 7);
  EXPECT_EQ(fragmentation_advice(m), "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.");
  m.settings_variable = "PYTORCH_ALLOC_CONF";
  EXPECT_EQ(fragmentation_advice(m), "Try PYTORCH_ALLOC_CONF=expandable_segments:True.");
  m.settings_variable.clear();
  m.kind = "HIP";
  EXPECT_EQ(fragmentation_advice(m), "Try PYTORCH_HIP_ALLOC_CONF=expandable_segments:True.");
  m = message(kMiB * 376, kGiB, kGiB * 71, kGiB * 7);
  m.wording = OomWording::kBefore21;
  m.settings_variable = "PYTORCH_CUDA_ALLOC_CONF";
  EXPECT_THAT(fragmentation_advice(m), AllOf(HasSubstr("Before PyTorch 2.1, try PYTORCH_CUDA_ALLOC_CONF="
                                                       "max_split_size_mb:128:"),
                                             HasSubstr("needs PyTorch 2.1")));
  m.settings_variable.clear();
  EXPECT_THAT(fragmentation_advice(m), HasSubstr("From PyTorch 1.10 on, try"));
  m.wording = OomWording::kBefore15;
  EXPECT_THAT(fragmentation_advice(m), HasSubstr("has no setting against it"));
  EXPECT_FALSE(has_expandable_segments(m));
}

}  // namespace
}  // namespace plimsoll
