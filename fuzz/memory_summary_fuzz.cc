// Any text as a log with tables of torch.cuda.memory_summary(): what is read can be shown.
#include <cstdint>
#include <cstdlib>

#include "importers/memory_stats/memory_summary.h"
#include "report/memory_stats_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto devices = read_memory_summaries(text, "fuzz");
  if (!devices) {
    if (devices.error().message.empty()) std::abort();
    return 0;
  }
  if (devices->empty() || !sniff_memory_summary(text)) std::abort();
  for (const RecordedMemoryStats& stats : *devices) memory_stats_page("fuzz", stats);
  memory_stats_json("fuzz", *devices);
  return 0;
}
