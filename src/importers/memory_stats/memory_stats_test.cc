#include "importers/memory_stats/memory_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kFlat = R"({
  "active.all.allocated": 7, "allocated_bytes.all.current": 1024, "allocated_bytes.all.peak": 4096,
  "allocated_bytes.small_pool.peak": 512, "max_split_size": -1, "num_ooms": 1, "oversize_segments.peak": 0,
  "reserved_bytes_by_private_pools.0_1.all.current": 2097152
})";
const std::string kNested = R"({
  "active": {"all": {"allocated": 7}},
  "allocated_bytes": {"all": {"current": 1024, "peak": 4096}, "small_pool": {"peak": 512}},
  "max_split_size": -1, "num_ooms": 1, "oversize_segments": {"peak": 0},
  "reserved_bytes_by_private_pools": {"0_1": {"all": {"current": 2097152}}}
})";

std::string error_of(const std::string& text) {
  const Result<RecordedMemoryStats> stats = read_memory_stats(text, "stats.json");
  return stats ? "no error" : stats.error().to_text();
}

TEST(MemoryStats, NestedTooDeeplyIsNoModel) {
  const auto stats =
      read_memory_stats("{\"allocated_bytes\": " + std::string(50, '[') + std::string(50, ']') + "}", "s");
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().expected, "the JSON of torch.cuda.memory_stats()");
}

TEST(RecordedMemoryStats, FlatAndNestedSayTheSame) {
  const Result<RecordedMemoryStats> flat = read_memory_stats(kFlat, "flat"),
                                    nested = read_memory_stats(kNested, "nested");
  ASSERT_TRUE(flat) << flat.error().to_text();
  ASSERT_TRUE(nested) << nested.error().to_text();
  EXPECT_EQ(flat->counters, nested->counters);
  EXPECT_EQ(flat->counters.size(), 8U);
  EXPECT_EQ(flat->bytes("allocated_bytes.all.peak"), Bytes{4096});
  EXPECT_EQ(flat->counter("reserved_bytes_by_private_pools.0_1.all.current"), 2097152);
  EXPECT_EQ(flat->counter("num_alloc_retries"), std::nullopt);
  EXPECT_THAT(flat->notes, IsEmpty());
}

TEST(RecordedMemoryStats, OfPinnedHostMemory) {
  const std::string flat = R"({"active_bytes.current": 4096, "active_bytes.peak": 8192,
      "active_requests.peak": 2, "allocated_bytes.peak": 16384, "allocations.peak": 3,
      "host_alloc_time.avg": 812.5, "host_alloc_time.count": 3, "num_host_alloc": 3, "num_host_free": 0})";
  const std::string nested = R"({"active_bytes": {"current": 4096, "peak": 8192}, "num_host_alloc": 3,
      "active_requests": {"peak": 2}, "allocated_bytes": {"peak": 16384}, "allocations": {"peak": 3},
      "host_alloc_time": {"avg": 812.5, "count": 3}, "num_host_free": 0})";
  for (const std::string& text : {flat, nested}) {
    EXPECT_TRUE(sniff_memory_stats(text));
    const Result<RecordedMemoryStats> stats = read_memory_stats(text, "host.json");
    ASSERT_TRUE(stats) << stats.error().to_text();
    EXPECT_TRUE(stats->is_host);
    EXPECT_EQ(stats->counters.size(), 7U);
    EXPECT_EQ(stats->bytes("allocated_bytes.peak"), Bytes{16384});
    EXPECT_THAT(stats->notes, IsEmpty());
  }
  EXPECT_FALSE(read_memory_stats(kFlat, "device.json")->is_host);
}

TEST(RecordedMemoryStats, ADictAsPythonPrintsIt) {
  for (const char* text : {"{'allocated_bytes.all.peak': 7, 'num_ooms': 2}\n",
                           "OrderedDict({'allocated_bytes.all.peak': 7, 'num_ooms': 2})",
                           "OrderedDict([('allocated_bytes.all.peak', 7), ('num_ooms', 2)])\n",
                           "{'allocated_bytes': {'all': {'peak': 7}},\n 'num_ooms': 2}"}) {
    EXPECT_TRUE(sniff_memory_stats(text)) << text;
    const Result<RecordedMemoryStats> stats = read_memory_stats(text, "f");
    ASSERT_TRUE(stats) << stats.error().to_text();
    EXPECT_EQ(stats->counters.at("allocated_bytes.all.peak"), 7);
    EXPECT_EQ(stats->counters.at("num_ooms"), 2);
    EXPECT_TRUE(stats->notes.empty());
  }
  EXPECT_FALSE(read_memory_stats("OrderedDict([('allocated_bytes.all.peak', 7", "f"));
}

TEST(RecordedMemoryStats, UnknownKeysAreNoted) {
  const Result<RecordedMemoryStats> stats = read_memory_stats(
      R"({"allocated_bytes.all.peak": 1, "allocated_bytes.huge_pool.peak": 2, "x": "y"})", "s");
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->counters.size(), 1U);
  EXPECT_THAT(stats->notes,
              ElementsAre("key \"allocated_bytes.huge_pool.peak\" is not known", "key \"x\" is not known"));
  std::string many = "{\"num_ooms\": 0";
  for (int i = 0; i < 25; ++i) many += ", \"k" + std::to_string(i) + "\": 0";
  const Result<RecordedMemoryStats> lot = read_memory_stats(many + "}", "s");
  ASSERT_TRUE(lot);
  EXPECT_EQ(lot->notes.size(), kMostUnknownKeys + 1);
  EXPECT_EQ(lot->notes.back(), "15 more keys are not known");
}

TEST(RecordedMemoryStats, WrongValuesAreErrorsWithTheirPlace) {
  EXPECT_THAT(error_of("{\n  \"num_ooms\": 1.5}"),
              HasSubstr("stats.json:2:3, key \"num_ooms\": is no integer"));
  EXPECT_THAT(error_of("{\"num_ooms\": -1}"), HasSubstr("is -1\n  expected: 0 or more"));
  EXPECT_THAT(
      error_of(R"({"num_ooms": 1, "allocated_bytes.all.peak": 1, "allocated_bytes": {"all": {"peak": 1}}})"),
      HasSubstr("is given twice, flat and nested"));
  EXPECT_THAT(error_of("{\"a\": 1}"), HasSubstr("holds no counter of torch.cuda.memory_stats()"));
  EXPECT_THAT(error_of("{\"num_ooms\": "), HasSubstr("stats.json:1:"));
}

TEST(RecordedMemoryStats, CutAnywhereIsAnError) {
  for (size_t length = 0; length < kNested.size() - 1; ++length)
    EXPECT_FALSE(read_memory_stats(kNested.substr(0, length), "s")) << length;
}

TEST(RecordedMemoryStats, Sniffs) {
  EXPECT_TRUE(sniff_memory_stats(kFlat));
  EXPECT_TRUE(sniff_memory_stats(kNested));
  EXPECT_FALSE(sniff_memory_stats("{\"hidden_size\": 4096}"));
  EXPECT_FALSE(sniff_memory_stats("allocated_bytes"));
}

}  // namespace
}  // namespace plimsoll
