// How long a memory snapshot takes to read, from memory and of a gzip file beside its decompression alone,
// and to analyze.
//
//   cmake --preset release -DPLIMSOLL_BENCH=ON && ninja -C build/release snapshot_bench
//   build/release/bench/snapshot_bench
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "importers/byte_source.h"
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

// A file that is gone again at the end.
class GzipFile {
 public:
  explicit GzipFile(const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() / fmt::format("snapshot_bench_{}.gz", getpid())) {
    const gzFile file = gzopen(path_.c_str(), "wb6");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  ~GzipFile() { std::filesystem::remove(path_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void BM_Decompress(benchmark::State& state) {
  const GzipFile file(generated().bytes);
  for (auto _ : state) {
    const std::unique_ptr<ByteSource> source = std::move(*ByteSource::open(file.path()));
    while (source->ensure(1)) source->take(source->available());
    if (source->offset() != generated().bytes.size()) state.SkipWithError("misread");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * generated().bytes.size()));
}
BENCHMARK(BM_Decompress)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_ReadGzipSnapshot(benchmark::State& state) {
  const GzipFile file(generated().bytes);
  for (auto _ : state) {
    const Result<TorchSnapshot> read = read_torch_snapshot(file.path());
    if (!read || read->devices.at(0).events.size() != generated().events) state.SkipWithError("misread");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * generated().bytes.size()));
}
BENCHMARK(BM_ReadGzipSnapshot)->Unit(benchmark::kMillisecond)->UseRealTime();

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
