#include "strategy/allocator_configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace plimsoll {
namespace {

constexpr std::string_view kKnownKeys[] = {"backend",
                                           "expandable_segments",
                                           "garbage_collection_threshold",
                                           "graph_capture_record_stream_reuse",
                                           "large_segment_size_mb",
                                           "max_non_split_rounding_mb",
                                           "max_split_size_mb",
                                           "per_process_memory_fraction",
                                           "pinned_num_register_threads",
                                           "pinned_reserve_segment_size_mb",
                                           "pinned_use_background_threads",
                                           "pinned_use_cuda_host_register",
                                           "release_lock_on_cudamalloc",
                                           "roundup_power2_divisions",
                                           "throw_on_cudamalloc_oom"};

Error bad_configuration(std::string message) {
  return {.position = {.key = "allocator.configuration"},
          .message = std::move(message),
          .expected = "KEY:VALUE,KEY:VALUE as PYTORCH_ALLOC_CONF has it"};
}

// The text up to the next comma outside brackets; the rest stays in `text`.
std::string_view next_part(std::string_view& text) {
  size_t end = 0;
  for (int depth = 0; end < text.size() && (depth > 0 || text[end] != ','); ++end)
    depth += (text[end] == '[') - (text[end] == ']');
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

std::string without_spaces(std::string_view text) {
  std::string result;
  std::ranges::copy_if(text, std::back_inserter(result), [](char c) { return c != ' '; });
  return result;
}

}  // namespace

bool is_known_allocator_key(std::string_view key) {
  return std::ranges::find(kKnownKeys, key) != std::ranges::end(kKnownKeys);
}

Result<std::vector<AllocatorSetting>> parse_allocator_configuration(std::string_view text) {
  const std::string compact = without_spaces(text);
  std::vector<AllocatorSetting> settings;
  for (std::string_view rest = compact; !rest.empty();) {
    const std::string_view part = next_part(rest);
    const auto colon = part.find(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == part.size())
      return fail(bad_configuration(fmt::format("\"{}\" is not KEY:VALUE", part)));
    AllocatorSetting setting{.key = std::string(part.substr(0, colon)),
                             .value = std::string(part.substr(colon + 1))};
    if (std::ranges::find(settings, setting.key, &AllocatorSetting::key) != settings.end())
      return fail(bad_configuration(fmt::format("\"{}\" is given twice", setting.key)));
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace plimsoll
