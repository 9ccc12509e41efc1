// How long a memory snapshot takes to read, from memory, and to analyze.
//
//   cmake --preset release -DPLIMSOLL_BENCH=ON && ninja -C build/release snapshot_bench
//   build/release/bench/snapshot_bench
#include <benchmark/benchmark.h>

#include "importers/torch_snapshot/torch_snapshot.h"
#include "replay/analysis.h"
#include "snapshot_generator.h"

namespace plimsoll {
namespace {

struct Generated {
  uint64_t events = 0;
  std::string bytes;
};

const Generated& generated() {
  static const Generated snapshot = [] {
    Generated g;
    g.events = generate_snapshot(200'000, [&](std::string_view bytes) { g.bytes += bytes; });
    return g;
  }();
  return snapshot;
}

void BM_ReadSnapshot(benchmark::State& state) {
  const Generated& snapshot = generated();
  for (auto _ : state) {
    const Result<TorchSnapshot> read = read_torch_snapshot_bytes(snapshot.bytes, "generated");
    if (!read || read->devices.at(0).events.size() != snapshot.events) state.SkipWithError("misread");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * snapshot.bytes.size()));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * snapshot.events));
}
BENCHMARK(BM_ReadSnapshot)->Unit(benchmark::kMillisecond);

void BM_AnalyzeSnapshot(benchmark::State& state) {
  const Result<TorchSnapshot> read = read_torch_snapshot_bytes(generated().bytes, "generated");
  for (auto _ : state) {
    const Result<SnapshotAnalysis> analysis = analyze(read->devices.at(0));
    if (!analysis || analysis->replay.same_address != analysis->replay.allocations)
      state.SkipWithError("played otherwise than recorded");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * generated().events));
}
BENCHMARK(BM_AnalyzeSnapshot)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll
