// Any text as a log with out-of-memory errors: what is read can be explained.
#include <cstdint>
#include <cstdlib>

#include "importers/oom_text/memory_failures.h"
#include "importers/oom_text/oom_text.h"
#include "report/memory_failure_page.h"
#include "report/oom_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<MemoryFailure> failures = find_memory_failures(text);
  if (!failures.empty() && memory_failure_page("fuzz", failures, {}).empty()) std::abort();
  const auto messages = read_oom_text(text, "fuzz");
  if (!messages) {
    if (messages.error().message.empty()) std::abort();
    return 0;
  }
  if (!sniff_oom_text(text)) std::abort();
  if (messages->empty()) return 0;  // cut
  oom_page("fuzz", *messages, {});
  oom_json("fuzz", *messages, failures, {});
  return 0;
}
