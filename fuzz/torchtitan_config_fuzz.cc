// The reader of torchtitan's configurations takes any bytes. What it makes of them must be a job that a job
// file can say.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "importers/torchtitan/torchtitan_config.h"
#include "strategy/job_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = plimsoll::parse_toml(text, "fuzz.toml");
  if (!document) return 0;
  const auto imported = plimsoll::torchtitan_job(*document);
  if (!imported) return 0;
  if (!plimsoll::parse_job(plimsoll::to_toml(imported->job), "again.toml")) std::abort();
  return 0;
}
