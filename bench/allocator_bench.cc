// How long the heaps take for the allocations of one training step of 126 layers.
//
//   cmake --preset release -DPLIMSOLL_BENCH=ON && ninja -C build/release allocator_bench
//   build/release/bench/allocator_bench
#include <benchmark/benchmark.h>

#include <memory>

#include "allocator/caching_heap.h"
#include "allocator/lower_bound_heap.h"
#include "allocator/replay.h"
#include "replay/what_if.h"
#include "training_step_events.h"

namespace plimsoll {
namespace {

void play(const std::vector<HeapEvent>& events, Heap& heap, std::vector<BlockId>& blocks) {
  for (const HeapEvent& event : events) {
    if (event.is_alloc) {
      blocks[event.tensor] = *heap.alloc(Bytes{event.size}, kDefaultStream);
    } else {
      heap.free(blocks[event.tensor]);
    }
  }
}

template <typename MakeHeap>
void run_steps(benchmark::State& state, MakeHeap make_heap) {
  const TrainingStepEvents events = training_step_events({.layers = static_cast<int>(state.range(0))});
  std::vector<BlockId> blocks(events.tensors);
  for (auto _ : state) {
    std::unique_ptr<Heap> heap = make_heap();
    play(events.load, *heap, blocks);
    play(events.step, *heap, blocks);
    benchmark::DoNotOptimize(heap->stats());
  }
  const double count = static_cast<double>(events.load.size() + events.step.size());
  state.counters["events"] = count;
  state.counters["per_event"] =
      benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_LowerBound(benchmark::State& state) {
  run_steps(state, [] { return std::make_unique<LowerBoundHeap>(); });
}
BENCHMARK(BM_LowerBound)->Arg(126)->Unit(benchmark::kMillisecond);

void BM_Caching(benchmark::State& state) {
  run_steps(state, [] { return std::make_unique<CachingHeap>(); });
}
BENCHMARK(BM_Caching)->Arg(32)->Arg(126)->Unit(benchmark::kMillisecond);

void BM_CachingExpandable(benchmark::State& state) {
  run_steps(state, [] {
    return std::make_unique<CachingHeap>(CachingHeapOptions{.settings = {.expandable_segments = true}});
  });
}
BENCHMARK(BM_CachingExpandable)->Arg(126)->Unit(benchmark::kMillisecond);

void BM_CachingRecorded(benchmark::State& state) {
  const TrainingStepEvents events = training_step_events({.layers = static_cast<int>(state.range(0))});
  std::vector<BlockId> blocks(events.tensors);
  for (auto _ : state) {
    AllocationTrace trace;
    AllocationRecorder recorder(trace);
    CachingHeap heap({.recorder = &recorder});
    play(events.load, heap, blocks);
    play(events.step, heap, blocks);
    benchmark::DoNotOptimize(trace.events.size());
  }
}
BENCHMARK(BM_CachingRecorded)->Arg(126)->Unit(benchmark::kMillisecond);

// The trace of twenty such steps, as a snapshot has it: three events for a block that comes and goes.
AllocationTrace recorded_steps(const AllocatorSettings& settings) {
  const TrainingStepEvents events = training_step_events({.layers = 126});
  std::vector<BlockId> blocks(events.tensors);
  AllocationTrace trace;
  AllocationRecorder recorder(trace);
  CachingHeap heap({.settings = settings, .recorder = &recorder});
  play(events.load, heap, blocks);
  for (int step = 0; step < 20; ++step) play(events.step, heap, blocks);
  trace.segments = heap.segments();
  return trace;
}

void count_events(benchmark::State& state, const AllocationTrace& trace) {
  const auto count = static_cast<double>(trace.events.size());
  state.counters["events"] = count;
  state.counters["events_per_s"] = benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate);
}

void BM_ReplayScript(benchmark::State& state) {
  const AllocatorSettings settings{.expandable_segments = state.range(0) != 0};
  const AllocationTrace trace = recorded_steps(settings);
  const ReplayScript script = *ReplayScript::compile(trace, settings);
  for (auto _ : state) {
    const ReplayResult result = replay(script, settings);
    if (result.same_address != result.allocations) state.SkipWithError("other addresses than recorded");
  }
  count_events(state, trace);
}
BENCHMARK(BM_ReplayScript)->Arg(0)->Arg(1)->ArgName("expandable")->Unit(benchmark::kMillisecond);

void BM_CompileScript(benchmark::State& state) {
  const AllocationTrace trace = recorded_steps({});
  for (auto _ : state) benchmark::DoNotOptimize(ReplayScript::compile(trace, {})->ops.size());
  count_events(state, trace);
}
BENCHMARK(BM_CompileScript)->Unit(benchmark::kMillisecond);

void BM_WhatIf(benchmark::State& state) {
  const AllocationTrace trace = recorded_steps({});
  const ReplayScript script = *ReplayScript::compile(trace, {});
  const GiveBacks given_back = find_give_backs(trace);
  const AllocatorSettings expandable{.expandable_segments = true};
  for (auto _ : state) benchmark::DoNotOptimize(play_under(script, given_back, expandable, {}).peak_reserved);
  count_events(state, trace);
}
BENCHMARK(BM_WhatIf)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll
