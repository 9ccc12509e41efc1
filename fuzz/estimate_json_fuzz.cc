// Any bytes as what `plimsoll estimate --json` prints: what is read has phases and can be compared.
#include <cstdint>
#include <cstdlib>

#include "importers/estimate_json/estimate_json.h"
#include "report/memory_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sniff_estimate_json(text);
  const auto estimate = read_estimate_json(text, "fuzz");
  if (!estimate) {
    if (estimate.error().message.empty()) std::abort();
    return 0;
  }
  if (estimate->phases.empty()) std::abort();
  const MemoryProfile profile = profile_of_estimate("fuzz", *estimate);
  compare_page(profile, profile, 10);
  compare_json(profile, profile);
  return 0;
}
