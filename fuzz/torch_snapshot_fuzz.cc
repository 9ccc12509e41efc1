// Bytes as a memory snapshot: read, explained, played again and under other settings. What is refused says
// why.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "importers/torch_snapshot/torch_snapshot.h"
#include "replay/analysis.h"
#include "report/replay_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const Result<TorchSnapshot> snapshot =
      read_torch_snapshot_bytes({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!snapshot) {
    if (snapshot.error().message.empty()) std::abort();
    return 0;
  }
  for (const AllocationTrace& trace : snapshot->devices) {
    const Result<SnapshotAnalysis> analysis =
        analyze(trace, {.what_if = {"expandable_segments:True"}, .capacity = kGiB});
    if (analysis) replay_page("fuzz", {.trace = &trace, .analysis = *analysis});
  }
  return 0;
}
