// How long it takes to build a training program and to simulate it: load, two steps, evaluation.
//
//   cmake --preset release -DPLIMSOLL_BENCH=ON && ninja -C build/release program_bench
//   build/release/bench/program_bench
#include <benchmark/benchmark.h>

#include <stdexcept>
#include <string>

#include "allocator/caching_heap.h"
#include "allocator/lower_bound_heap.h"
#include "base/data_dir.h"
#include "frameworks/pytorch/training.h"
#include "importers/hf_config/presets.h"
#include "program/text.h"
#include "program/verify.h"
#include "simulator/simulator.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

struct Case {
  Architecture architecture;
  ResolvedJob job;
};

// FSDP2 over `gpus` with full recompute when there are several, else one GPU with the defaults.
Case make_case(const std::string& model, int64_t gpus) {
  Job job{.model = {.name = model}, .hardware = {.gpu = "h100-80gb", .gpus = gpus}};
  if (gpus > 1) job.recompute.kind = RecomputeKind::kFull;
  Result<Architecture> architecture = read_preset(model, data_dir());
  if (!architecture) throw std::runtime_error(architecture.error().to_text());
  Result<ResolvedJob> resolved = resolve(job, *architecture, {.name = "h100-80gb", .gpus_per_node = 8});
  if (!resolved) throw std::runtime_error(resolved.error().to_text());
  return {.architecture = *std::move(architecture), .job = *std::move(resolved)};
}

Program make_program(const Case& c) {
  Result<Program> program = pytorch::build_training(c.architecture, c.job);
  if (!program) throw std::runtime_error(program.error().to_text());
  return *std::move(program);
}

Case case_of(int64_t index) {
  switch (index) {
    case 0:
      return make_case("llama-3.1-8b", 1);
    case 1:
      return make_case("llama-3.1-70b", 64);
    default:
      return make_case("llama-3.1-405b", 512);
  }
}
#define PLIMSOLL_CASES ArgName("case")->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)

void BM_Build(benchmark::State& state) {
  const Case c = case_of(state.range(0));
  size_t statements = 0;
  for (auto _ : state) {
    const Program program = make_program(c);
    statements = program.statements.size();
  }
  state.counters["statements"] = static_cast<double>(statements);
}
BENCHMARK(BM_Build)->PLIMSOLL_CASES;

enum class Phases { kAll, kLoadAndFirstStep };

// The phases from the load to the first step's end.
void keep_first_step(Program& program) {
  std::erase_if(program.schedule,
                [](const PhaseStep& step) { return step.phase.back() != '1' && step.phase != "load"; });
}

template <typename HeapType>
void simulate_program(benchmark::State& state, Phases phases) {
  Program program = make_program(case_of(state.range(0)));
  if (phases == Phases::kLoadAndFirstStep) keep_first_step(program);
  for (auto _ : state) {
    HeapType heap;
    benchmark::DoNotOptimize(simulate(program, heap));
  }
}
void BM_SimulateLowerBound(benchmark::State& state) { simulate_program<LowerBoundHeap>(state, Phases::kAll); }
BENCHMARK(BM_SimulateLowerBound)->PLIMSOLL_CASES;

void BM_SimulateCaching(benchmark::State& state) { simulate_program<CachingHeap>(state, Phases::kAll); }
BENCHMARK(BM_SimulateCaching)->PLIMSOLL_CASES;

void BM_SimulateOneStepLowerBound(benchmark::State& state) {
  simulate_program<LowerBoundHeap>(state, Phases::kLoadAndFirstStep);
}
BENCHMARK(BM_SimulateOneStepLowerBound)->PLIMSOLL_CASES;

void BM_SimulateOneStepCaching(benchmark::State& state) {
  simulate_program<CachingHeap>(state, Phases::kLoadAndFirstStep);
}
BENCHMARK(BM_SimulateOneStepCaching)->PLIMSOLL_CASES;

void BM_Verify(benchmark::State& state) {
  const Program program = make_program(case_of(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(verify(program));
}
BENCHMARK(BM_Verify)->PLIMSOLL_CASES;

void BM_WriteText(benchmark::State& state) {
  const Program program = make_program(case_of(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(to_text(program));
}
BENCHMARK(BM_WriteText)->PLIMSOLL_CASES;

void BM_ParseText(benchmark::State& state) {
  const std::string text = to_text(make_program(case_of(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(parse_program(text, "bench"));
}
BENCHMARK(BM_ParseText)->PLIMSOLL_CASES;

}  // namespace
}  // namespace plimsoll
