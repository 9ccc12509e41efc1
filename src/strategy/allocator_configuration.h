// PYTORCH_ALLOC_CONF, split: "max_split_size_mb:128,expandable_segments:True".
//
//   auto settings = parse_allocator_configuration(job.allocator.configuration);
//   for (const AllocatorSetting& setting : *settings) ...   // {"max_split_size_mb", "128"}
//
// Source: AllocatorConfig of PyTorch 2.13. Does not judge the values; the allocator that reads them does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll {

struct AllocatorSetting {
  std::string key;
  std::string value;  // with its brackets: "[256:1,512:2]"

  bool operator==(const AllocatorSetting&) const = default;
};

// In the order written. Missing values and keys given twice are errors; unknown keys are not, since each
// version of PyTorch has its own.
Result<std::vector<AllocatorSetting>> parse_allocator_configuration(std::string_view text);

bool is_known_allocator_key(std::string_view key);

}  // namespace plimsoll
