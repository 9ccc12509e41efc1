// The job file reader and `--set` take any bytes. What is read must be written so that it reads the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "strategy/allocator_configuration.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"

namespace {

plimsoll::Architecture small_architecture() {
  plimsoll::Architecture architecture{.name = "small", .family = "llama", .max_position = 2048};
  architecture.layers.resize(2);
  architecture.parameters.push_back({.name = "model.layers.0.mlp.up_proj.weight", .shape = {8, 8}});
  return architecture;
}

void check_round_trip(const plimsoll::Job& job) {
  const auto again = plimsoll::parse_job(plimsoll::to_toml(job), "again.toml");
  if (!again || !(*again == job)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const plimsoll::Architecture architecture = small_architecture();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto job = plimsoll::parse_job(text, "fuzz.toml")) {
    check_round_trip(*job);
    (void)plimsoll::resolve(*job, architecture, {.name = "gpu"});
  }
  plimsoll::Job job;
  if (plimsoll::apply_setting(job, text)) check_round_trip(job);
  (void)plimsoll::parse_allocator_configuration(text);
  return 0;
}
