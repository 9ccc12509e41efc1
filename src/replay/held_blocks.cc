#include "replay/held_blocks.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "trace/address_map.h"

namespace plimsoll {
namespace {

constexpr size_t kNever = SIZE_MAX;

// A block past its last possible use.
struct Held {
  size_t event = 0;  // its alloc
  size_t since = 0;  // the first event with it held
  size_t freed = kNever;
  uint32_t step = 0;      // that made it
  uint32_t forwards = 0;  // that began while it was held
  HeldKind kind = HeldKind::kOfForward;
  bool is_used = false;  // after all: a backward freed it
};

// Walks through the trace step by step.
class Steps {
 public:
  Steps(const AllocationTrace& trace, const StepPhases& phases, std::span<const StackMeaning> meanings)
      : trace_(trace), runs_(phases.runs), without_stack_(role_without_stack(trace)) {
    for (const StackMeaning& m : meanings) roles_.push_back(m.role);
  }

  void run() {
    if (std::ranges::count(runs_, StepPhase::kBackward, &PhaseRun::phase) == 0)
      return;  // nothing's use is seen to end
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      enter_until(i);
      const AllocationEvent& event = trace_.events[i];
      if (event.action == AllocationAction::kAlloc) take_alloc(event, i);
      if (event.action == AllocationAction::kFreeRequested) take_free(event.address, i);
    }
    enter_until(trace_.events.size());
  }

  std::vector<Held> held;

 private:
  struct Live {
    size_t event = 0;
    size_t held = kNever;  // index into `held`
  };
  struct Fresh {  // not yet past its use
    uint64_t address = 0;
    size_t event = 0;
    uint32_t step = 0;
  };

  void enter_until(size_t event) {
    for (; next_run_ < runs_.size() && runs_[next_run_].first <= event; ++next_run_)
      enter(runs_[next_run_].phase, runs_[next_run_].first);
  }

  void take_alloc(const AllocationEvent& event, size_t at) {
    live_[event.address] = {.event = at};
    const Fresh fresh{.address = event.address, .event = at, .step = step_};
    if (phase_ == StepPhase::kForward) of_forward_.push_back(fresh);
    const BlockRole role = event.stack ? roles_[*event.stack] : without_stack_;
    if (phase_ == StepPhase::kBackward && role == BlockRole::kBackward) gradients_.push_back(fresh);
  }

  void take_free(uint64_t address, size_t at) {
    const Live* live = live_.find(address);
    if (live == nullptr) return;
    if (live->held != kNever) {
      held[live->held].freed = at;
      held[live->held].is_used = phase_ == StepPhase::kBackward;
      held[live->held].forwards = forwards_ - held[live->held].forwards;
    }
    live_.erase(address);
  }

  void enter(StepPhase next, size_t at) {
    if (phase_ == StepPhase::kBackward) {
      has_backward_ended_ = true;
      hold(of_forward_, HeldKind::kOfForward, at);
    }
    if (phase_ == StepPhase::kOptimizer) {
      std::ranges::copy(gradients_, std::back_inserter(used_gradients_));
      gradients_.clear();
    }
    if (next == StepPhase::kForward) begin_forward(at);
    phase_ = next;
  }

  void begin_forward(size_t at) {
    if (has_backward_ended_) ++step_;
    has_backward_ended_ = false;
    hold(used_gradients_, HeldKind::kGradient, at);
    ++forwards_;
  }

  void hold(std::vector<Fresh>& blocks, HeldKind kind, size_t at) {
    for (const Fresh& fresh : blocks) {
      Live* const live = live_.find(fresh.address);
      if (live == nullptr || live->event != fresh.event) continue;
      live->held = held.size();
      held.push_back(
          {.event = fresh.event, .since = at, .step = fresh.step, .forwards = forwards_, .kind = kind});
    }
    blocks.clear();
  }

  const AllocationTrace& trace_;
  const std::vector<PhaseRun>& runs_;
  size_t next_run_ = 0;
  std::vector<BlockRole> roles_;  // by stack
  BlockRole without_stack_;
  AddressMap<Live> live_;
  std::vector<Fresh> of_forward_, gradients_, used_gradients_;
  StepPhase phase_ = StepPhase::kNone;
  bool has_backward_ended_ = false;  // since the last forward began
  uint32_t step_ = 0, forwards_ = 0;
};

// The blocks of one line of code.
class Line {
 public:
  void add(const Held& block, Bytes bytes) {
    ++blocks_;
    steps_.insert(block.step);
    changes_.emplace_back(block.since, bytes);
    if (block.freed == kNever) {
      never_freed_in_.insert(block.step);
      return;
    }
    changes_.emplace_back(block.freed, Bytes{} - bytes);
    const size_t passed = std::min<size_t>(block.forwards, freed_after_.size() - 1);
    ++freed_after_[passed];
  }

  bool is_made_once() const { return never_freed_in_.size() == 1 && steps_.size() == 1 && num_freed() == 0; }

  HeldLine summary(HeldKind kind) {
    HeldLine line{.kind = kind, .blocks = blocks_, .steps = static_cast<int64_t>(steps_.size())};
    std::ranges::sort(changes_);
    Bytes now;
    for (const auto& [event, change] : changes_) {
      now += change;
      line.most = std::max(line.most, now);
    }
    line.until = until();
    return line;
  }

 private:
  int64_t num_freed() const { return freed_after_[0] + freed_after_[1] + freed_after_[2]; }
  HeldUntil until() const {
    if (never_freed_in_.size() > 1) return HeldUntil::kGrowing;
    if (num_freed() == 0) return HeldUntil::kDump;
    if (freed_after_[2] > freed_after_[1]) return HeldUntil::kLater;
    return freed_after_[1] >= freed_after_[0] ? HeldUntil::kNextForward : HeldUntil::kStepEnd;
  }

  int64_t blocks_ = 0;
  std::set<uint32_t> steps_, never_freed_in_;
  std::array<int64_t, 3> freed_after_{};  // after none, one, more forwards
  std::vector<std::pair<size_t, Bytes>> changes_;
};

int64_t backwards_that_ended(const StepPhases& phases) {
  const int64_t seen = phases.backwards.value_or(0);
  return seen - (!phases.runs.empty() && phases.runs.back().phase == StepPhase::kBackward ? 1 : 0);
}

}  // namespace

HeldBlocks find_held_blocks(const AllocationTrace& trace, const StepPhases& phases,
                            std::span<const StackMeaning> meanings, std::span<const Bytes> block_bytes,
                            std::optional<size_t> peak) {
  Steps steps(trace, phases, meanings);
  steps.run();
  HeldBlocks answer{.backwards = backwards_that_ended(phases)};
  struct Key {
    std::optional<FrameId> frame, call_frame;
    HeldKind kind;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::pair<Line, Bytes>> lines;  // and what of it was there at the peak
  for (const Held& block : steps.held) {
    if (block.is_used) continue;
    const auto& stack = trace.events[block.event].stack;
    const StackMeaning meaning = stack ? meanings[*stack] : StackMeaning();
    auto& [line, at_peak] =
        lines[{.frame = meaning.shown_frame, .call_frame = meaning.call_frame, .kind = block.kind}];
    line.add(block, block_bytes[block.event]);
    if (peak && block.since <= *peak && block.freed > *peak) at_peak += block_bytes[block.event];
  }
  for (auto& [key, found] : lines) {
    auto& [line, at_peak] = found;
    const bool is_made_once = answer.backwards > 1 && line.is_made_once();
    if (is_made_once && key.kind == HeldKind::kOfForward) continue;
    HeldLine summary = line.summary(key.kind);
    if (is_made_once) summary.until = HeldUntil::kKept;
    summary.frame = key.frame;
    summary.call_frame = key.call_frame;
    summary.at_peak = at_peak;
    answer.at_peak += at_peak;
    answer.lines.push_back(summary);
  }
  std::ranges::stable_sort(answer.lines, std::greater(), &HeldLine::most);
  return answer;
}

}  // namespace plimsoll
