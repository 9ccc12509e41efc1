#include "importers/memory_stats/memory_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string table(const std::string& device, const std::string& before = "") {
  std::string text;
  for (const std::string& line :
       {std::string("|===========================================================================|"),
        "|                  PyTorch CUDA memory summary, device ID " + device + "                 |",
        std::string("|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |"),
        std::string("|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |"),
        std::string("| Allocated memory      |  146836 KB |    4261 MB |     847 GB |     847 GB |"),
        std::string("|       from large pool |  107268 KB |    4228 MB |     843 GB |     843 GB |"),
        std::string("|       from small pool |   39568 KB |      48 MB |       4 GB |       4 GB |"),
        std::string("| GPU reserved memory   |   6000 MiB |   6100 MiB |   7000 MiB |   1000 MiB |"),
        std::string("| Allocations           |     250    |     270    |    9123 K  |    9123 K  |"),
        std::string("| Oversize allocations  |       1    |       2    |       3    |       2    |")})
    text += before + line + "\n";
  return text;
}

TEST(MemorySummary, IsReadAsCounters) {
  const auto all = read_memory_summaries("step 1\n" + table("0"), "log");
  ASSERT_TRUE(all) << all.error().to_text();
  ASSERT_EQ(all->size(), 1U);
  const RecordedMemoryStats& stats = (*all)[0];
  EXPECT_EQ(stats.device, 0);
  EXPECT_EQ(stats.bytes("allocated_bytes.all.current"), kKiB * 146836);
  EXPECT_EQ(stats.bytes("allocated_bytes.all.peak"), kMiB * 4261);
  EXPECT_EQ(stats.bytes("allocated_bytes.large_pool.peak"), kMiB * 4228);
  EXPECT_EQ(stats.bytes("allocated_bytes.small_pool.allocated"), kGiB * 4);
  EXPECT_EQ(stats.bytes("reserved_bytes.all.peak"), kMiB * 6100);
  EXPECT_EQ(stats.counter("allocation.all.allocated"), 9'123'000);
  EXPECT_EQ(stats.counter("oversize_allocations.peak"), 2);
  EXPECT_EQ(stats.counter("num_ooms"), 1);
  EXPECT_EQ(stats.counter("num_alloc_retries"), 3);
}

TEST(MemorySummary, TheLastTableOfEachDeviceCounts) {
  std::string later = table("0", "[rank0]: ");
  later.replace(later.find("4261 MB"), 7, "5000 MB");
  const auto all = read_memory_summaries(table("0", "[rank0]: ") + table("1", "[rank1]: ") + later, "log");
  ASSERT_TRUE(all) << all.error().to_text();
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ((*all)[0].bytes("allocated_bytes.all.peak"), kMiB * 5000);
  EXPECT_THAT((*all)[0].notes, Contains("the last of 2 tables of this device"));
  EXPECT_EQ((*all)[1].device, 1);
}

TEST(MemorySummary, ARowThatIsCutIsAnError) {
  const auto cut = read_memory_summaries(
      "memory summary, device ID 0\n| Allocated memory      |  146836 KB |    4261 MB |\n", "log");
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().to_text(),
              HasSubstr("log:2: the row \"Allocated memory\" of a memory summary is not whole"));
  EXPECT_FALSE(read_memory_summaries("memory summary, device ID 0\n", "log"));
  EXPECT_FALSE(sniff_memory_summary("nothing"));
  EXPECT_TRUE(sniff_memory_summary(table("0")));
}

TEST(MemorySummary, CutAnywhereIsReadOrRefused) {
  const std::string whole = table("0");
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto stats = read_memory_summaries(whole.substr(0, length), "log");
    EXPECT_TRUE(stats || !stats.error().message.empty());
  }
}

}  // namespace
}  // namespace plimsoll
