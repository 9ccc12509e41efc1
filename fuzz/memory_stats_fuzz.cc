// Any bytes as the JSON of torch.cuda.memory_stats(): what is read has counters and can be shown.
#include <cstdint>
#include <cstdlib>

#include "importers/memory_stats/memory_stats.h"
#include "report/memory_stats_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sniff_memory_stats(text);
  const auto stats = read_memory_stats(text, "fuzz");
  if (!stats) {
    if (stats.error().message.empty()) std::abort();
    return 0;
  }
  if (stats->counters.empty()) std::abort();
  memory_stats_page("fuzz", *stats);
  memory_stats_json("fuzz", {*stats});
  return 0;
}
