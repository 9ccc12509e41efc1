#include "report/memory_stats_contradictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/memory_stats_page.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// After some steps and a reset of what is accumulated: more was freed since than allocated. The pools had
// their peaks at different moments, and a block waits for another stream: active, requested, not allocated.
RecordedMemoryStats whole() {
  return {.counters = {{"allocated_bytes.all.current", 5000},
                       {"allocated_bytes.all.peak", 9000},
                       {"allocated_bytes.all.allocated", 1000},
                       {"allocated_bytes.all.freed", 4000},
                       {"allocated_bytes.small_pool.current", 1000},
                       {"allocated_bytes.small_pool.peak", 3000},
                       {"allocated_bytes.large_pool.current", 4000},
                       {"allocated_bytes.large_pool.peak", 8000},
                       {"requested_bytes.all.current", 5900},
                       {"requested_bytes.all.peak", 9500},
                       {"active_bytes.all.current", 6000},
                       {"active_bytes.all.peak", 10000},
                       {"inactive_split_bytes.all.current", 1500},
                       {"reserved_bytes.all.current", 8000},
                       {"reserved_bytes.all.peak", 12000},
                       {"allocation.all.current", 7},
                       {"active.all.current", 8},
                       {"reserved_bytes_by_private_pools.0_1.all.current", 2000},
                       {"reserved_bytes_by_private_pools.0_2.all.current", 3000}}};
}

std::vector<std::string> texts_of(const RecordedMemoryStats& stats) {
  std::vector<std::string> texts;
  for (const StatsContradiction& contradiction : contradictions_of(stats))
    texts.push_back(contradiction.text);
  return texts;
}
std::vector<std::string> texts_with(const std::string& counter, int64_t value) {
  RecordedMemoryStats stats = whole();
  stats.counters[counter] = value;
  return texts_of(stats);
}

TEST(MemoryStatsContradictions, CountersThatHoldHaveNone) { EXPECT_THAT(texts_of(whole()), IsEmpty()); }

TEST(MemoryStatsContradictions, EachLawByItsBreach) {
  EXPECT_THAT(texts_with("reserved_bytes.all.peak", 7000),
              ElementsAre("reserved_bytes.all.current 7.81 KiB above reserved_bytes.all.peak 6.84 KiB"));
  EXPECT_THAT(
      texts_with("allocated_bytes.all.allocated", 9001),
      ElementsAre(HasSubstr("allocated_bytes.all.allocated 8.79 KiB above allocated_bytes.all.current "
                            "4.88 KiB and allocated_bytes.all.freed 3.91 KiB")));
  EXPECT_THAT(texts_with("allocated_bytes.small_pool.current", 999),
              ElementsAre(HasSubstr("allocated_bytes.all.current 4.88 KiB above "
                                    "allocated_bytes.small_pool.current 999 B and")));
  EXPECT_THAT(texts_with("allocated_bytes.small_pool.current", 1001),
              ElementsAre(HasSubstr("above allocated_bytes.all.current 4.88 KiB")));
  EXPECT_THAT(texts_with("allocated_bytes.large_pool.peak", 9001),
              ElementsAre(HasSubstr("allocated_bytes.large_pool.peak 8.79 KiB above "
                                    "allocated_bytes.all.peak")));
  EXPECT_THAT(
      texts_with("allocated_bytes.small_pool.peak", 999),
      ElementsAre(HasSubstr("small_pool.current 1000 B above allocated_bytes.small_pool.peak 999 B")));
  EXPECT_THAT(
      texts_with("active_bytes.all.peak", 8999),
      ElementsAre(HasSubstr("allocated_bytes.all.peak 8.79 KiB above active_bytes.all.peak 8.79 KiB")));
  EXPECT_THAT(texts_with("requested_bytes.all.current", 6001),
              ElementsAre(HasSubstr("requested_bytes.all.current 5.86 KiB above active_bytes.all.current")));
  EXPECT_THAT(texts_with("reserved_bytes.all.peak", 9999),
              ElementsAre(HasSubstr("active_bytes.all.peak 9.77 KiB above reserved_bytes.all.peak")));
  EXPECT_THAT(texts_with("allocation.all.current", 9),
              ElementsAre("allocation.all.current 9 above active.all.current 8"));
  EXPECT_THAT(
      texts_with("inactive_split_bytes.all.current", 2001),
      ElementsAre(HasSubstr("active_bytes.all.current 5.86 KiB and inactive_split_bytes.all.current")));
  EXPECT_THAT(texts_with("reserved_bytes_by_private_pools.0_1.all.current", 5001),
              ElementsAre(HasSubstr("above reserved_bytes.all.current 7.81 KiB")));
}

// The peak of all is below that of both pools together where they came one after the other, never above.
TEST(MemoryStatsContradictions, PeaksOfPoolsNeedNotAddUp) {
  EXPECT_THAT(texts_with("allocated_bytes.all.peak", 8000), IsEmpty());
  RecordedMemoryStats stats = whole();
  stats.counters["allocated_bytes.small_pool.peak"] = 1000;
  EXPECT_THAT(texts_of(stats), IsEmpty());
  stats.counters["allocated_bytes.large_pool.peak"] = 7999;
  EXPECT_THAT(texts_of(stats), ElementsAre(HasSubstr("allocated_bytes.all.peak 8.79 KiB above")));
}

// cudaMallocAsync's counters of pools are 0.
TEST(MemoryStatsContradictions, AnAllocatorWithoutPoolsHasNoSums) {
  RecordedMemoryStats stats = whole();
  for (auto& [name, value] : stats.counters)
    if (name.find("_pool.") != std::string::npos) value = 0;
  EXPECT_THAT(texts_of(stats), IsEmpty());
}

// 1 MiB and 1 MiB may be 3 MiB less two bytes.
TEST(MemoryStatsContradictions, UnitsOfATableCutDigits) {
  RecordedMemoryStats stats;
  for (const auto& [name, mebibytes] :
       {std::pair("allocated_bytes.all.current", 3), std::pair("allocated_bytes.small_pool.current", 1),
        std::pair("allocated_bytes.large_pool.current", 1)}) {
    stats.counters[name] = mebibytes * kMiB.value;
    stats.cut_by[name] = kMiB.value - 1;
  }
  EXPECT_THAT(texts_of(stats), IsEmpty());
  stats.counters["allocated_bytes.all.current"] = 4 * kMiB.value;
  EXPECT_THAT(texts_of(stats), Not(IsEmpty()));
}

// Its counters are sums over size classes, with a peak of each.
TEST(MemoryStatsContradictions, OfPinnedMemoryOnlyEachByItself) {
  RecordedMemoryStats stats = {.is_host = true,
                               .counters = {{"allocated_bytes.current", 10},
                                            {"allocated_bytes.peak", 20},
                                            {"active_bytes.current", 30},
                                            {"active_bytes.peak", 30}}};
  EXPECT_THAT(texts_of(stats), IsEmpty());
  stats.counters["active_bytes.peak"] = 29;
  EXPECT_THAT(texts_of(stats), ElementsAre("active_bytes.current 30 B above active_bytes.peak 29 B"));
  EXPECT_THAT(memory_stats_page("f", stats), HasSubstr("contradictory: active_bytes.current"));
}

TEST(MemoryStatsContradictions, NothingRestsOnThem) {
  RecordedMemoryStats stats = whole();
  EXPECT_THAT(memory_stats_page("f", stats),
              AllOf(HasSubstr("fragmentation: reserved stands"), HasSubstr("cached now"),
                    HasSubstr("rounding of blocks in use"), Not(HasSubstr("Notes"))));
  stats.counters["allocated_bytes.all.peak"] = 4999;
  const std::string note =
      "contradictory: allocated_bytes.all.current 4.88 KiB above allocated_bytes.all.peak 4.88 KiB; so not "
      "concluded: what fragmentation cost, what is cached now";
  EXPECT_THAT(memory_stats_page("f", stats),
              AllOf(HasSubstr("\nNotes\n  " + note + "\n"), Not(HasSubstr("fragmentation: reserved")),
                    Not(HasSubstr("cached now:")), HasSubstr("rounding of blocks in use")));
  const auto json = nlohmann::json::parse(memory_stats_json("f", {stats}));
  EXPECT_EQ(json["contradictions"][0]["counters"],
            nlohmann::json::array({"allocated_bytes.all.current", "allocated_bytes.all.peak"}));
  EXPECT_EQ(json["notes"], nlohmann::json::array({note}));
}

TEST(MemoryStatsContradictions, ManyAreCounted) {
  RecordedMemoryStats stats;
  for (int i = 0; i < 25; ++i) {
    const std::string pool = "reserved_bytes_by_private_pools.0_" + std::to_string(i) + ".all";
    stats.counters[pool + ".current"] = 2;
    stats.counters[pool + ".peak"] = 1;
  }
  EXPECT_THAT(memory_stats_page("f", stats), HasSubstr("\n  5 more counters contradict others\n"));
}

}  // namespace
}  // namespace plimsoll
