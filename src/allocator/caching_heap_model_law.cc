// CachingHeap takes the steps of the plain model, one for one: the same addresses, segments, pages and
// failures in the same order, under random settings, with streams, private pools and devices that are too
// small.
//
// The environment variable PLIMSOLL_MODEL_EVENTS sets how many events have to agree in the long run:
//
//   PLIMSOLL_MODEL_EVENTS=1000000 build/src/allocator/allocator_law --gtest_filter='*LongRun*'
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "allocator/caching_heap.h"
#include "allocator/heap_calls.h"
#include "allocator/plain_caching_model.h"

namespace plimsoll {
namespace {

// Work that a stream was given is done some calls later, by stream.
class StepClock final : public StreamClock {
 public:
  Nanoseconds now() const override { return Nanoseconds{step_}; }
  Nanoseconds busy_until(HeapStream stream) const override { return Nanoseconds{step_ + 3 + 4 * stream}; }
  void step() { ++step_; }

 private:
  int64_t step_ = 0;
};

struct Scenario {
  AllocatorSettings settings;
  Bytes capacity;
  std::vector<PrivatePoolOptions> pools;
  std::vector<HeapCall> calls;
};

void showValue(const Scenario& s, std::ostream& os) {
  os << to_recorded(s.settings, "").expandable_segments << " expandable, max_split "
     << (s.settings.max_split_size ? s.settings.max_split_size->value >> 20 : 0) << " MiB, garbage "
     << s.settings.garbage_collection_threshold << ", fraction "
     << s.settings.per_process_memory_fraction.value_or(-1) << ", capacity " << (s.capacity.value >> 20)
     << " MiB:";
  for (const HeapCall& call : s.calls) {
    os << "\n  ";
    showValue(call, os);
  }
}

Scenario any_scenario(int most_calls) {
  Scenario s{.settings = any_settings()};
  for (uint64_t& divisions : s.settings.roundup_power2_divisions)
    divisions = *rc::gen::element<uint64_t>(0, 0, 1, 2, 8);
  s.settings.max_non_split_rounding = kMiB * *rc::gen::element<int64_t>(20, 30);
  s.settings.large_segment_size = kMiB * *rc::gen::element<int64_t>(20, 20, 32);
  // PyTorch refuses a max_split_size that a segment of several blocks could reach.
  if (s.settings.max_split_size)
    s.settings.max_split_size = s.settings.large_segment_size + kMiB * *rc::gen::element<int64_t>(1, 13);
  s.capacity = kMiB * *rc::gen::element<int64_t>(150, 1000, 16384);
  for (int pool = 0; pool < kPrivatePools; ++pool)
    s.pools.push_back({.never_splits = *rc::gen::weightedElement<bool>({{3, false}, {1, true}}),
                       .serves_when_full = *rc::gen::arbitrary<bool>(),
                       .has_own_allocator = *rc::gen::arbitrary<bool>()});
  s.calls = any_calls_with_pools(most_calls);
  return s;
}

class Comparison {
 public:
  explicit Comparison(const Scenario& scenario)
      : scenario_(scenario),
        device_(scenario.capacity),
        model_device_(scenario.capacity),
        recorder_(trace_),
        heap_({.settings = scenario.settings, .device = &device_, .clock = &clock_, .recorder = &recorder_}),
        model_(scenario.settings, model_device_, clock_) {}

  // True when all agree.
  bool run() {
    for (const PrivatePoolOptions& options : scenario_.pools) {
      heap_.open_pool(options);
      model_.open_pool(options);
    }
    for (const HeapCall& call : scenario_.calls) {
      clock_.step();
      make(call);
      if (!agrees()) return false;
    }
    return true;
  }
  size_t events() const { return trace_.events.size(); }

 private:
  void make(const HeapCall& call) {
    switch (call.kind) {
      case HeapCall::kAlloc:
        return alloc(call);
      case HeapCall::kEmptyCache:
        heap_.empty_cache();
        return model_.empty_cache();
      case HeapCall::kPool:
      case HeapCall::kRetire:
        use_pool(call, heap_, heap_use_);
        return use_pool(call, model_, model_use_);
      case HeapCall::kFree:
      case HeapCall::kRecordStream:
        if (!live_.empty()) use_block(call);
    }
  }
  void alloc(const HeapCall& call) {
    if (call.size == 0) return;
    const Allocation block = heap_.alloc(Bytes{call.size}, call.stream);
    const std::optional<uint64_t> address = model_.alloc(static_cast<uint64_t>(call.size), call.stream);
    if (block.has_value() != address.has_value()) is_same_outcome_ = false;
    if (block && address) live_.push_back({.block = *block, .address = *address});
  }
  void use_block(const HeapCall& call) {
    const size_t which = static_cast<size_t>(call.which) % live_.size();
    const Live live = live_[which];
    if (call.kind == HeapCall::kRecordStream) {
      heap_.record_stream(live.block, call.stream);
      return model_.record_stream(live.address, call.stream);
    }
    heap_.free(live.block);
    model_.free(live.address);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  bool agrees() {
    const std::vector<AllocationEvent>& expected = model_.events();
    if (!is_same_outcome_ || expected.size() != trace_.events.size()) return false;
    for (; agreed_ < expected.size(); ++agreed_)
      if (expected[agreed_] != trace_.events[agreed_]) return false;
    const HeapStats stats = heap_.stats();
    return stats.reserved.current == Bytes{static_cast<int64_t>(model_.reserved())} &&
           stats.num_alloc_retries == model_.retries() && stats.num_ooms == model_.ooms();
  }

  struct Live {
    BlockId block;
    uint64_t address = 0;
  };

  const Scenario& scenario_;
  SimulatedDevice device_, model_device_;
  StepClock clock_;
  AllocationTrace trace_;
  AllocationRecorder recorder_;
  CachingHeap heap_;
  PlainCachingModel model_;
  PoolUse heap_use_, model_use_;
  std::vector<Live> live_;
  size_t agreed_ = 0;
  bool is_same_outcome_ = true;
};

RC_GTEST_PROP(CachingHeapModelLaw, TakesTheStepsOfThePlainModel, ()) {
  const Scenario scenario = *rc::gen::exec([] { return any_scenario(300); });
  RC_ASSERT(Comparison(scenario).run());
}

size_t wanted_events() {
  const char* text = std::getenv("PLIMSOLL_MODEL_EVENTS");
  size_t wanted = 20'000;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), wanted);
  return wanted;
}

TEST(CachingHeapModelLaw, LongRunAgrees) {
  const auto scenarios = rc::gen::exec([] { return any_scenario(3000); });
  size_t agreed = 0;
  for (uint64_t seed = 1; agreed < wanted_events(); ++seed) {
    const Scenario scenario = scenarios(rc::Random(seed), 100).value();
    Comparison comparison(scenario);
    ASSERT_TRUE(comparison.run()) << "seed " << seed << ", event " << comparison.events();
    agreed += comparison.events();
  }
  RecordProperty("events", std::to_string(agreed));
  EXPECT_GE(agreed, wanted_events());
}

}  // namespace
}  // namespace plimsoll
