// The reader of settings on any text.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "allocator/allocator_settings.h"

namespace plimsoll {
namespace {

rc::Gen<std::string> any_piece() {
  return rc::gen::element<std::string>(
      "max_split_size_mb", "large_segment_size_mb", "roundup_power2_divisions", "expandable_segments",
      "garbage_collection_threshold", "per_process_memory_fraction", "backend", ":", ",", "[", "]", ">",
      "True", "False", "native", "64", "0.5", "256", "4", "-1", "18446744073709551616", " ", "\t", "\xff",
      "");
}

// The rounding is that of a block: never smaller, whole multiples of 512, and a rounded size stays as it is.
void check_rounding(const AllocatorSettings& settings) {
  const uint64_t size = *rc::gen::inRange<uint64_t>(1, uint64_t{1} << 40);
  const uint64_t rounded = settings.round(size);
  RC_ASSERT(rounded >= size);
  RC_ASSERT(rounded % kMinBlock == 0U);
  RC_ASSERT(settings.round(rounded) == rounded);
}

RC_GTEST_PROP(AllocatorSettingsLaw, AnyTextIsReadOrRefusedWithItsPlace, ()) {
  std::string text;
  for (const std::string& piece : *rc::gen::container<std::vector<std::string>>(any_piece())) text += piece;
  const Result<AllocatorSettings> settings = parse_allocator_settings(text, "PYTORCH_ALLOC_CONF");
  if (settings) return check_rounding(*settings);
  RC_ASSERT(settings.error().position.file == "PYTORCH_ALLOC_CONF");
  RC_ASSERT(settings.error().position.column >= 1);
  RC_ASSERT(*settings.error().position.column <= static_cast<int>(text.size()) + 1);
  RC_ASSERT(!settings.error().message.empty());
}

RC_GTEST_PROP(AllocatorSettingsLaw, DivisionsRoundUpToBlocks, ()) {
  AllocatorSettings settings;
  for (uint64_t& divisions : settings.roundup_power2_divisions) {
    divisions = *rc::gen::element<uint64_t>(0, 1, 2, 4, 8, 16, 1024);
  }
  check_rounding(settings);
}

}  // namespace
}  // namespace plimsoll
