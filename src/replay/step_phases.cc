#include "replay/step_phases.h"

#include <algorithm>

#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

struct Moment {
  Nanoseconds time;
  StepPhase phase = StepPhase::kNone;
};

// Of an alloc by its role; kNone: of whichever runs.
StepPhase phase_of(BlockRole role, bool knows_forward) {
  switch (role) {
    case BlockRole::kActivation:
      return StepPhase::kForward;
    case BlockRole::kBackward:
      return StepPhase::kBackward;
    case BlockRole::kOptimizer:
      return StepPhase::kOptimizer;
    case BlockRole::kUnknown:
      return knows_forward ? StepPhase::kNone : StepPhase::kForward;
    default:
      return StepPhase::kNone;
  }
}

// Of the program's own name: "fwd1", "bwd2.1", "step2"; "eval" has no backward to wait for.
StepPhase phase_named(std::string_view name) {
  if (name.starts_with("fwd")) return StepPhase::kForward;
  if (name.starts_with("bwd")) return StepPhase::kBackward;
  return name.starts_with("step") ? StepPhase::kOptimizer : StepPhase::kNone;
}

std::vector<Moment> moments_of(const AllocationTrace& trace, bool is_simulated) {
  std::vector<Moment> all;
  for (const TraceAnnotation& a : trace.annotations) {
    if (a.is_end) continue;
    if (is_simulated)
      all.push_back({a.time, phase_named(a.name)});
    else if (a.name.starts_with("Optimizer.step"))
      all.push_back({a.time, StepPhase::kOptimizer});
  }
  std::ranges::stable_sort(all, {}, &Moment::time);
  return all;
}

// In order: `take(event, phase)` for each moment, before the first event of its time or a later one.
template <typename Take, typename Event>
void walk(const AllocationTrace& trace, const std::vector<Moment>& moments, Take take, Event on_event) {
  size_t next = 0;
  for (size_t i = 0; i < trace.events.size(); ++i) {
    const auto& time = trace.events[i].time;
    while (time && next < moments.size() && moments[next].time <= *time) take(i, moments[next++].phase);
    on_event(i);
  }
  while (next < moments.size()) take(trace.events.size(), moments[next++].phase);
}

StepPhases of_simulation(const AllocationTrace& trace) {
  const std::vector<Moment> moments = moments_of(trace, true);
  StepPhases found;
  if (moments.empty()) return found;  // a category doesn't tell when
  found.told_by = PhasesToldBy::kSimulation;
  walk(
      trace, moments,
      [&](size_t at, StepPhase phase) {
        found.runs.push_back({at, phase});
      },
      [](size_t) {});
  const auto count = [&](StepPhase phase) { return std::ranges::count(moments, phase, &Moment::phase); };
  found.forwards = count(StepPhase::kForward);
  found.backwards = count(StepPhase::kBackward);
  found.optimizer_steps = count(StepPhase::kOptimizer);
  return found;
}

class ByStacks {
 public:
  ByStacks(const AllocationTrace& trace, std::span<const StackMeaning> meanings) : trace_(trace) {
    std::vector<bool> is_used(meanings.size());
    for (const AllocationEvent& event : trace.events)
      if (event.action == AllocationAction::kAlloc && event.stack) is_used[*event.stack] = has_stacks_ = true;
    for (size_t s = 0; s < meanings.size(); ++s)
      knows_forward_ |= is_used[s] && meanings[s].role == BlockRole::kActivation;
    for (const StackMeaning& m : meanings) phases_.push_back(phase_of(m.role, knows_forward_));
    without_stack_ = phase_of(role_without_stack(trace), knows_forward_);
  }

  StepPhases find() {
    const std::vector<Moment> moments = moments_of(trace_, false);
    walk(
        trace_, moments, [&](size_t at, StepPhase phase) { enter(at, phase); },
        [&](size_t i) { take(trace_.events[i], i); });
    if (!knows_forward_ && backwards_ == 0 && optimizer_steps_ == 0) return {};
    found_.told_by = PhasesToldBy::kRecording;
    found_.optimizer_steps = optimizer_steps_;
    if (!has_stacks_) return std::move(found_);
    found_.forwards = forwards_;
    found_.backwards = backwards_;
    return std::move(found_);
  }

 private:
  void take(const AllocationEvent& event, size_t at) {
    if (event.action != AllocationAction::kAlloc) return;
    const StepPhase phase = event.stack ? phases_[*event.stack] : without_stack_;
    if (phase != StepPhase::kNone) enter(at, phase);
  }

  void enter(size_t at, StepPhase next) {
    if (next == now_) return;
    now_ = next;
    found_.runs.push_back({at, next});
    switch (next) {
      case StepPhase::kForward:
        ++forwards_;
        is_backward_counted_ = is_step_counted_ = false;
        break;
      case StepPhase::kBackward:
        if (!is_backward_counted_) ++backwards_;
        is_backward_counted_ = true;
        break;
      case StepPhase::kOptimizer:
        if (!is_step_counted_) ++optimizer_steps_;
        is_step_counted_ = true;
        break;
      case StepPhase::kNone:
        break;
    }
  }

  const AllocationTrace& trace_;
  std::vector<StepPhase> phases_;  // by stack
  StepPhase without_stack_ = StepPhase::kNone;
  bool has_stacks_ = false, knows_forward_ = false;
  StepPhase now_ = StepPhase::kNone;
  int64_t forwards_ = 0, backwards_ = 0, optimizer_steps_ = 0;
  bool is_backward_counted_ = false, is_step_counted_ = false;  // since the last forward
  StepPhases found_;
};

}  // namespace

StepPhases find_step_phases(const AllocationTrace& trace, std::span<const StackMeaning> meanings) {
  const bool is_simulated = std::ranges::any_of(meanings, &StackMeaning::is_simulated);
  return is_simulated ? of_simulation(trace) : ByStacks(trace, meanings).find();
}

}  // namespace plimsoll
