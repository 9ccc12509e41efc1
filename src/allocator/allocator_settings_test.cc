#include "allocator/allocator_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

AllocatorSettings must(std::string_view text) {
  const Result<AllocatorSettings> settings = parse_allocator_settings(text, "PYTORCH_ALLOC_CONF");
  EXPECT_TRUE(settings.has_value()) << settings.error().to_text();
  return settings.value_or(AllocatorSettings{});
}

std::string error_of(std::string_view text) {
  const Result<AllocatorSettings> settings = parse_allocator_settings(text, "PYTORCH_ALLOC_CONF");
  EXPECT_FALSE(settings.has_value()) << text;
  return settings ? "" : settings.error().to_text();
}

TEST(AllocatorSettings, EmptyTextIsTheDefault) {
  const AllocatorSettings settings = must("");
  EXPECT_FALSE(settings.max_split_size.has_value());
  EXPECT_EQ(settings.max_non_split_rounding, kMiB * 20);
  EXPECT_EQ(settings.large_segment_size, kMiB * 20);
  EXPECT_EQ(settings.garbage_collection_threshold, 0);
  EXPECT_FALSE(settings.expandable_segments);
}

TEST(AllocatorSettings, ReadsEachSetting) {
  const AllocatorSettings settings = must(
      " max_split_size_mb : 128, garbage_collection_threshold:0.8,expandable_segments:True,"
      "max_non_split_rounding_mb:64,per_process_memory_fraction:0.5,");
  EXPECT_EQ(settings.max_split_size, kMiB * 128);
  EXPECT_EQ(settings.max_non_split_rounding, kMiB * 64);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.8);
  EXPECT_EQ(settings.per_process_memory_fraction, 0.5);
  EXPECT_TRUE(settings.expandable_segments);
}

TEST(AllocatorSettings, LimitsFollowTheLargeSegmentSizeInAnyOrder) {
  EXPECT_EQ(must("large_segment_size_mb:64").max_non_split_rounding, kMiB * 64);
  EXPECT_EQ(must("max_non_split_rounding_mb:72,large_segment_size_mb:64").max_non_split_rounding, kMiB * 72);
  EXPECT_THAT(error_of("max_split_size_mb:40,large_segment_size_mb:64"), HasSubstr("at least 64"));
  EXPECT_THAT(error_of("max_split_size_mb:19"), HasSubstr("at least 20"));
  EXPECT_THAT(error_of("large_segment_size_mb:10"), HasSubstr("at least 11"));
}

// The expected lists are what torch 2.13 itself reads from these texts.
TEST(AllocatorSettings, RoundupDivisionsByInterval) {
  EXPECT_THAT(must("roundup_power2_divisions:4").roundup_power2_divisions, testing::Each(4));
  EXPECT_THAT(must("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]").roundup_power2_divisions,
              ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8));
  EXPECT_THAT(must("roundup_power2_divisions:[64:8,256:4,1024:4,>:1]").roundup_power2_divisions,
              ElementsAre(8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 4, 1, 1, 1, 1, 1));
  EXPECT_THAT(must("roundup_power2_divisions:[65536:2]").roundup_power2_divisions, testing::Each(2));
  EXPECT_THAT(must("roundup_power2_divisions:[>:4]").roundup_power2_divisions,
              ElementsAre(0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4));
  EXPECT_THAT(must("roundup_power2_divisions:[1024:0,>:16]").roundup_power2_divisions,
              ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 16, 16, 16, 16));
  EXPECT_THAT(error_of("roundup_power2_divisions:3"), HasSubstr("power of two"));
  EXPECT_THAT(error_of("roundup_power2_divisions:[256:1 512:2]"), HasSubstr("malformed"));
  EXPECT_THAT(error_of("roundup_power2_divisions:[256:1"), HasSubstr("closing bracket"));
}

TEST(AllocatorSettings, RoundsWithDivisions) {
  const AllocatorSettings settings = must("roundup_power2_divisions:4");
  EXPECT_EQ(settings.round(1), 512U);
  EXPECT_EQ(settings.round(2048), 2048U);              // up to 4 blocks: to 512 only
  EXPECT_EQ(settings.round(2049), 2560U);              // steps of 512 between 2048 and 4096
  EXPECT_EQ(settings.round(1200 << 10), 1280U << 10);  // 1024, 1280, 1536, 1792 KiB
  EXPECT_EQ(settings.round(1793 << 10), 2048U << 10);
  EXPECT_EQ(must("").round(1200 << 10), 1200U << 10);
}

TEST(AllocatorSettings, WhatMovesNoByteIsNoted) {
  EXPECT_THAT(must("backend:native,pinned_num_register_threads:8").without_effect,
              ElementsAre("backend:native", "pinned_num_register_threads:8"));
  EXPECT_THAT(must("garbage_collection_threshold:0.8").without_effect,
              ElementsAre("garbage_collection_threshold without per_process_memory_fraction"));
  EXPECT_THAT(must("garbage_collection_threshold:0.8,per_process_memory_fraction:0.5").without_effect,
              ElementsAre());
}

TEST(AllocatorSettings, WhatIsNotSimulatedIsRefused) {
  EXPECT_THAT(error_of("backend:cudaMallocAsync"), HasSubstr("cudaMallocAsync is not simulated"));
  EXPECT_THAT(error_of("throw_on_cudamalloc_oom:True"), HasSubstr("not simulated"));
  EXPECT_THAT(error_of("expandable_segment:True"), HasSubstr("no such setting"));
}

TEST(AllocatorSettings, ErrorsSayWhere) {
  EXPECT_THAT(error_of("max_split_size_mb=64"), HasSubstr("a colon"));
  EXPECT_THAT(error_of("expandable_segments:true"), HasSubstr("True or False"));
  EXPECT_THAT(error_of("max_split_size_mb:64,expandable_segments:yes"), HasSubstr("PYTORCH_ALLOC_CONF"));
  const Result<AllocatorSettings> settings =
      parse_allocator_settings("max_split_size_mb:64,expandable_segments:yes", "PYTORCH_ALLOC_CONF");
  ASSERT_FALSE(settings.has_value());
  EXPECT_EQ(settings.error().position.column, 42);
  EXPECT_EQ(settings.error().position.key, "expandable_segments");
}

}  // namespace
}  // namespace plimsoll
