#include "report/what_if_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

DeviceReplay replay_of(const AllocationTrace& trace, Bytes recorded, std::vector<WhatIf> what_if) {
  DeviceReplay device{.trace = &trace};
  device.analysis.reserved.value = recorded;
  device.analysis.what_if = std::move(what_if);
  return device;
}

TEST(WhatIfText, ChangesAreCountedFromTheRecordedSettings) {
  const AllocationTrace trace;
  const DeviceReplay d =
      replay_of(trace, kGiB * 6,
                {{.is_as_recorded = true, .capacity = kGiB * 39, .peak_reserved = kGiB * 6},
                 {.configuration = "expandable_segments:True",
                  .capacity = kGiB * 39,
                  .peak_reserved = kGiB * 5,
                  .retries = 1}});
  EXPECT_THAT(what_if_text(d, "on a device of 40.00 GiB"),
              AllOf(HasSubstr("as recorded (PyTorch's default)  39.00 GiB       6.00 GiB             "),
                    HasSubstr("expandable_segments:True         39.00 GiB       5.00 GiB  -1.00 GiB"),
                    HasSubstr("on a device of 40.00 GiB\n"), Not(HasSubstr("the recording itself"))));
}

TEST(WhatIfText, AnotherPeakThanTheRecordingIsExplained) {
  const AllocationTrace trace;
  DeviceReplay d = replay_of(trace, kGiB * 6, {{.is_as_recorded = true, .peak_reserved = kGiB * 7}});
  EXPECT_THAT(what_if_text(d, ""),
              AllOf(HasSubstr("no limit"), HasSubstr("the recording itself peaked at 6.00 GiB"),
                    HasSubstr("the allocator chose other segments")));
  d.analysis.at_peak = {LiveBlock{}};
  EXPECT_THAT(what_if_text(d, ""), HasSubstr("blocks from before the trace are placed anew"));
  d.analysis.what_if[0].capacity = kGiB * 7;  // another device, which was never full
  EXPECT_THAT(what_if_text(d, "on a device"), HasSubstr("blocks from before the trace are placed anew"));
  d.analysis.what_if[0].retries = 1;
  EXPECT_THAT(what_if_text(d, "on a device"), AllOf(HasSubstr("the recording itself peaked at 6.00 GiB"),
                                                    HasSubstr("here: the device was full here")));
  d.analysis.what_if[0].served_failures = 1;
  EXPECT_THAT(what_if_text(d, "on a device"),
              AllOf(HasSubstr("here: a request that failed in the recording is served here\n"),
                    Not(HasSubstr("placed anew"))));
}

TEST(WhatIfText, WhatRanOutSaysWhatWasAskedFor) {
  AllocationTrace trace;
  trace.events.resize(8);
  const FrameId line = trace.stacks.add_frame({.name = "f", .filename = "/home/me/model.py", .line = 3});
  const DeviceReplay d = replay_of(trace, kGiB * 6,
                                   {{.is_as_recorded = true,
                                     .capacity = kGiB * 5,
                                     .out_of_memory_at = 7,
                                     .out_of_memory = OutOfMemory{.requested = kMiB * 100,
                                                                  .allocated = kGiB * 4,
                                                                  .reserved = kGiB * 5,
                                                                  .device_free = kMiB * 10},
                                     .out_of_memory_frame = line}});
  EXPECT_THAT(what_if_text(d, ""),
              AllOf(HasSubstr("after event 8"),
                    HasSubstr("  out of memory with as recorded (PyTorch's default): 100.00 MiB asked for by "
                              "me/model.py:3 f; allocated 4.00 GiB, reserved 5.00 GiB then, the device had "
                              "10.00 MiB free\n")));
}

TEST(WhatIfText, MuchIdleMemoryIsWorthAHint) {
  const AllocationTrace trace;
  DeviceReplay d = replay_of(trace, kGiB * 10, {});
  d.analysis.idle_at_reserved_peak = kGiB / 2;
  EXPECT_THAT(what_if_text(d, ""), IsEmpty());
  d.analysis.idle_at_reserved_peak = kGiB * 2;
  EXPECT_THAT(what_if_text(d, ""), IsEmpty());  // the peak is from before the trace
  d.analysis.reserved.event = 0;
  EXPECT_THAT(what_if_text(d, ""), HasSubstr("--alloc-conf expandable_segments:True (when reserved memory "
                                             "peaked, 2.00 GiB of 10.00 GiB was not allocated)"));
}

TEST(WhatIfText, IsEmptyWhenNothingWasAsked) {
  const AllocationTrace trace;
  EXPECT_THAT(what_if_text(replay_of(trace, kGiB, {}), ""), IsEmpty());
}

}  // namespace
}  // namespace plimsoll
