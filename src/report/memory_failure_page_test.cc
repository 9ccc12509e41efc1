#include "report/memory_failure_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "report/oom_page.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = MemoryFailureKind;

TEST(MemoryFailurePage, SaysWhatRanOutAndWhatHelps) {
  const std::string page =
      memory_failure_page("train.log",
                          {{.kind = Kind::kSharedMemory,
                            .line = 12,
                            .text = "DataLoader worker (pid 9) is killed by signal: Bus error.",
                            .times = 3}},
                          {"a note"});
  EXPECT_THAT(page,
              AllOf(HasSubstr("train.log:12: DataLoader worker (pid 9) is killed by signal: Bus error.\n"
                              "  and 2 more lines like it\n"
                              "  what ran out: /dev/shm, RAM that processes share\n"),
                    HasSubstr("What helps\n  - a larger one: `docker run --shm-size=16g`"),
                    HasSubstr("Notes\n  a note\n")));
}

TEST(MemoryFailurePage, TellsTheHostsMemoryFromTheGpus) {
  for (const Kind kind : {Kind::kHost, Kind::kKernelKill, Kind::kCgroupKill, Kind::kSlurmKill, Kind::kKilled,
                          Kind::kWorkerKilled})
    EXPECT_THAT(memory_of(kind), HasSubstr("the host's RAM")) << name_of(kind);
  for (const Kind kind : {Kind::kNccl, Kind::kLibrary, Kind::kDriver})
    EXPECT_EQ(memory_of(kind), "the GPU's, beside PyTorch's allocator") << name_of(kind);
  EXPECT_THAT(meaning_of(Kind::kKilled), HasSubstr("doesn't say who sent it"));
}

TEST(MemoryFailurePage, EveryKindIsExplainedOnce) {
  std::set<std::string_view> names, meanings;
  for (size_t k = 0; k <= static_cast<size_t>(Kind::kCut); ++k) {
    const auto kind = static_cast<Kind>(k);
    EXPECT_TRUE(names.insert(name_of(kind)).second) << name_of(kind);
    EXPECT_TRUE(meanings.insert(meaning_of(kind)).second) << name_of(kind);
    EXPECT_FALSE(memory_of(kind).empty() || help_of(kind).empty()) << name_of(kind);
  }
  EXPECT_EQ(name_of(Kind::kCut), "cut");
}

TEST(MemoryFailurePage, OtherCausesAreNamedWhereMemoryIsOnlyLikely) {
  for (const Kind kind : {Kind::kCublasHandle, Kind::kConvolution}) {
    EXPECT_THAT(memory_of(kind), HasSubstr("most likely the GPU's"));
    EXPECT_THAT(meaning_of(kind), HasSubstr("other causes: "));
  }
  EXPECT_EQ(memory_of(Kind::kTimeLimit), "time, not memory");
  EXPECT_THAT(std::string(help_of(Kind::kXla)[0]), HasSubstr("XLA_PYTHON_CLIENT_MEM_FRACTION"));
  EXPECT_THAT(std::string(meaning_of(Kind::kTensorFlow)), HasSubstr("BFC"));
}

TEST(MemoryFailurePage, SizesWhereTheTextHasThem) {
  const MemoryFailure failure{
      .kind = Kind::kKernelKill, .line = 2, .text = "Killed process", .held = kGiB * 60};
  EXPECT_THAT(memory_failure_page("log", {failure}, {}),
              HasSubstr("the host's RAM; the process held 60.00 GiB\n"));
  EXPECT_THAT(note_of({.kind = Kind::kNccl, .line = 7, .asked = kMiB * 6}),
              AllOf(HasSubstr("line 7: NCCL found no memory"), HasSubstr("; 6.00 MiB was asked for; leave")));
}

TEST(MemoryFailurePage, AsJson) {
  const auto json =
      nlohmann::json::parse(oom_json("log", {}, {{.kind = Kind::kSlurmKill, .line = 4, .times = 2}}, {}));
  EXPECT_TRUE(json["messages"].empty());
  const auto& failure = json["failures"][0];
  EXPECT_EQ(failure["kind"], "slurm-kill");
  EXPECT_EQ(failure["times"], 2);
  EXPECT_TRUE(failure["held_bytes"].is_null());
  EXPECT_EQ(failure["help"].size(), 3U);
}

}  // namespace
}  // namespace plimsoll
