// Any text as a log with out-of-memory errors: what is read can be explained.
#include <cstdint>
#include <cstdlib>

#include "importers/oom_text/oom_text.h"
#include "importers/oom_text/other_failures.h"
#include "report/oom_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const OtherFailure& failure : find_other_failures(text))
    if (error_of(failure, "fuzz").to_text().empty()) std::abort();
  const auto messages = read_oom_text(text, "fuzz");
  if (!messages) {
    if (messages.error().message.empty()) std::abort();
    return 0;
  }
  if (messages->empty() || !sniff_oom_text(text)) std::abort();
  oom_page("fuzz", *messages, {});
  oom_json("fuzz", *messages, {});
  return 0;
}
