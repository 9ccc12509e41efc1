// What is found in traces of any events, contradictory ones too.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "replay/give_backs.h"
#include "replay/held_blocks.h"

namespace plimsoll {
namespace {

AllocationTrace any_trace() {
  AllocationTrace trace;
  const StackFrame train{.name = "train", .filename = "/home/me/train.py", .line = 1};
  const StackFrame forward{.name = "forward", .filename = "/home/me/model.py", .line = 2};
  const StackFrame backward{.name = "torch::autograd::generated::MmBackward0::apply(x)", .filename = "??"};
  const StackFrame adam{.name = "step", .filename = "/venv/site-packages/torch/optim/adamw.py", .line = 3};
  const StackFrame empty_cache{.name = "empty_cache", .filename = "/venv/site-packages/torch/cuda/memory.py"};
  trace.stacks.add({forward, train});
  trace.stacks.add({backward});
  trace.stacks.add({adam, train});
  trace.stacks.add({empty_cache, train});
  const int count = *rc::gen::inRange(0, 200);
  for (int i = 0; i < count; ++i) {
    AllocationEvent event{.action = static_cast<AllocationAction>(*rc::gen::inRange(0, 10)),
                          .address = *rc::gen::inRange<uint64_t>(0, 12),
                          .bytes = Bytes{*rc::gen::inRange<int64_t>(0, 64) << 20}};
    const auto stack = *rc::gen::inRange<StackId>(0, 5);
    if (stack < 4) event.stack = stack;
    trace.events.push_back(event);
  }
  return trace;
}

RC_GTEST_PROP(FindingsLaw, EveryGivenBackSegmentIsOfOneRun, ()) {
  const AllocationTrace trace = any_trace();
  const GiveBacks found = find_give_backs(trace);
  size_t next = 0;
  for (const GiveBack& run : found.all) {
    RC_ASSERT(run.first >= next);
    RC_ASSERT(run.last >= run.first);
    next = run.last + 1;
  }
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const AllocationAction action = trace.events[i].action;
    const bool gives_back =
        action == AllocationAction::kSegmentFree || action == AllocationAction::kSegmentUnmap;
    if (gives_back) RC_ASSERT(found.at(i) != nullptr);
  }
  if (found.limit && found.limit->below) RC_ASSERT(*found.limit->below > found.limit->at_least);
}

RC_GTEST_PROP(FindingsLaw, HeldBlocksAddUp, ()) {
  const AllocationTrace trace = any_trace();
  std::vector<Bytes> bytes;
  Bytes all;
  for (const AllocationEvent& event : trace.events) all += bytes.emplace_back(event.bytes);
  const bool has_peak = !trace.events.empty() && *rc::gen::arbitrary<bool>();
  const auto peak =
      has_peak ? std::optional(*rc::gen::inRange<size_t>(0, trace.events.size())) : std::nullopt;
  const std::vector<StackMeaning> meanings = meanings_of(trace.stacks);
  const StepPhases phases = find_step_phases(trace, meanings);
  const HeldBlocks held = find_held_blocks(trace, phases, meanings, bytes, peak);
  Bytes at_peak;
  for (const HeldLine& line : held.lines) {
    RC_ASSERT(line.at_peak <= line.most);
    RC_ASSERT(line.most <= all);
    RC_ASSERT(line.steps >= 1);
    RC_ASSERT(line.blocks >= line.steps);
    at_peak += line.at_peak;
  }
  RC_ASSERT(at_peak == held.at_peak);
}

}  // namespace
}  // namespace plimsoll
