// Any bytes as a Chrome trace of the profiler: what is read is in order and can be explained.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "importers/kineto_trace/kineto_trace.h"
#include "report/profiled_memory_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sniff_kineto_trace(text);
  const auto memory = read_kineto_trace_bytes(text, "fuzz");
  if (!memory) {
    if (memory.error().message.empty()) std::abort();
    return 0;
  }
  if (memory->devices.empty()) std::abort();
  for (const ProfiledDevice& device : memory->devices)
    if (!std::ranges::is_sorted(device.instants, {}, &MemoryInstant::time)) std::abort();
  profiled_memory_page("fuzz", *memory, {});
  profiled_memory_json("fuzz", *memory, {});
  return 0;
}
