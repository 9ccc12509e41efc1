#include "replay/recorded_settings.h"

#include <fmt/format.h>

#include <bit>

namespace plimsoll {
namespace {

// What PyTorch's own reader of settings lets through; a file may say anything.
Result<void> check_figures(const RecordedSettings& recorded, const std::string& source) {
  const auto refuse = [&](std::string key, std::string message, std::string expected) {
    return fail({.position = {.file = source + "allocator_settings", .key = std::move(key)},
                 .message = std::move(message),
                 .expected = std::move(expected)});
  };
  const double threshold = recorded.garbage_collection_threshold;
  if (!(threshold >= 0 && threshold < 1))
    return refuse("garbage_collection_threshold", fmt::format("is {}", threshold),
                  "a number from 0 to below 1");
  for (const uint64_t divisions : recorded.roundup_power2_divisions)
    if (divisions != 0 && !std::has_single_bit(divisions))
      return refuse("roundup_power2_divisions", fmt::format("is {}", divisions), "powers of two, or 0");
  return {};
}

}  // namespace

Result<AllocatorSettings> settings_of(const RecordedSettings& recorded, const std::string& file) {
  const std::string source = file.empty() ? "the snapshot's " : file + ", ";
  if (!recorded.text.empty())
    return parse_allocator_settings(recorded.text, source + "PYTORCH_CUDA_ALLOC_CONF");
  PLIMSOLL_CHECK(check_figures(recorded, source));
  AllocatorSettings settings;
  settings.max_split_size = recorded.max_split_size;
  settings.garbage_collection_threshold = recorded.garbage_collection_threshold;
  settings.expandable_segments = recorded.expandable_segments;
  settings.roundup_power2_divisions = recorded.roundup_power2_divisions;
  return settings;
}

}  // namespace plimsoll
