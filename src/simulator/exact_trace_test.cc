#include "simulator/exact_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "program/ops.h"
#include "simulator/exact_peaks.h"
#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

// Two sections: what the first makes outlives it; the second adds a product to it.
Program two_sections() {
  Program program;
  program.is_complete = true;
  Recorder r(program, Recorder::Mode::kComplete);
  r.is_grad_enabled = false;
  const auto end = [&] { return static_cast<uint32_t>(program.statements.size()); };
  Value a = ops::zeros(r, {4, 3}, DType::kFloat32);
  program.sections.push_back({.name = "load", .last_statement = end()});
  {
    Value b = ops::zeros(r, {3, 5}, DType::kFloat32);
    const Value product = ops::mm(a, std::move(b));
  }
  program.sections.push_back({.name = "step", .first_statement = program.sections[0].last_statement});
  program.sections[1].last_statement = end();
  program.schedule = {{.phase = "load", .section = 0}, {.phase = "fwd1", .section = 1}};
  r.finish();
  return program;
}

TEST(ExactTrace, HasThePeakThatExactPeaksSay) {
  const Program program = two_sections();
  const AllocationTrace trace = exact_trace(program, program.schedule);
  Bytes now, peak;
  for (const AllocationEvent& e : trace.events) {
    if (e.action == AllocationAction::kAlloc) now += e.bytes;
    if (e.action == AllocationAction::kFreeCompleted) now -= e.bytes;
    peak = std::max(peak, now);
  }
  EXPECT_EQ(peak, exact_peaks(program)[1].device().total);
  EXPECT_EQ(peak.value, (4 * 3 + 3 * 5 + 4 * 5) * 4);
  ASSERT_EQ(trace.segments.size(), 1U);
  EXPECT_EQ(trace.segments[0].bytes.value, 4 * 3 * 4);
}

TEST(ExactTrace, IsOfTheStepsAskedFor) {
  const Program program = two_sections();
  const std::span<const PhaseStep> schedule = program.schedule;
  const auto allocs = [&](std::span<const PhaseStep> steps) {
    return std::ranges::count(exact_trace(program, steps).events, AllocationAction::kAlloc,
                              &AllocationEvent::action);
  };
  EXPECT_EQ(allocs(schedule.first(1)), 1);
  EXPECT_EQ(allocs(schedule), 3);
}

TEST(ExactTrace, StacksNameOpAndCategory) {
  const Program program = two_sections();
  const AllocationTrace trace = exact_trace(program, program.schedule);
  const auto frames = trace.stacks.frames_of(*trace.events[1].stack);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(trace.stacks.frame(frames[0]).name, "aten::zeros.default");
  EXPECT_TRUE(is_category_frame(trace.stacks.frame(frames[1])));
}

}  // namespace
}  // namespace plimsoll
