#include "replay/annotated_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> shown(const std::vector<NamedBlocks>& groups) {
  std::vector<std::string> all;
  for (const NamedBlocks& g : groups)
    all.push_back(g.name + " " + std::to_string(g.count) + " " + std::to_string(g.total.value));
  return all;
}

// Blocks one microsecond apart; block i is at 0x1000 * (i + 1) and has (i + 1) KiB.
class Blocks {
 public:
  explicit Blocks(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t address = 0x1000 * (i + 1);
      const Bytes bytes{static_cast<int64_t>(i + 1) << 10};
      trace.events.push_back({.action = AllocationAction::kAlloc,
                              .address = address,
                              .bytes = bytes,
                              .time = Nanoseconds{static_cast<int64_t>(i) * 1000}});
      live.push_back({.event = i, .address = address, .bytes = bytes});
    }
  }
  void named(const std::string& name, int64_t from, int64_t to) {
    trace.annotations.push_back({.time = Nanoseconds{from}, .name = name});
    trace.annotations.push_back({.time = Nanoseconds{to}, .name = name, .is_end = true});
  }
  AnnotatedBlocks annotated() const { return annotated_blocks(trace, live, trace.events.size() - 1); }

  AllocationTrace trace;
  std::vector<LiveBlock> live;
};

TEST(AnnotatedBlocks, RangesNest) {
  Blocks b(4);
  b.named("step", -1, 2500);
  b.named("forward", 500, 1500);
  EXPECT_THAT(shown(b.annotated().annotations),
              ElementsAre(" 1 4096", "step 2 4096", "step > forward 1 2048"));
}

TEST(AnnotatedBlocks, ARangeWithoutItsStartIsOpenFromTheBeginning) {
  Blocks b(2);
  b.trace.annotations.push_back({.time = Nanoseconds{500}, .name = "step", .is_end = true});
  EXPECT_THAT(shown(b.annotated().annotations), ElementsAre(" 1 2048", "step 1 1024"));
}

TEST(AnnotatedBlocks, RangesThatOverlapAreToldByName) {
  Blocks b(3);
  b.named("a", -1, 1500);
  b.named("b", 500, 2500);
  EXPECT_THAT(shown(b.annotated().annotations), ElementsAre("b 1 3072", "a > b 1 2048", "a 1 1024"));
}

TEST(AnnotatedBlocks, MetadataIsTheAllocsAndWhatIsAddedUntilTheMoment) {
  Blocks b(3);
  b.trace.metadata = {
      {.event = 0, .text = "weights"}, {.event = 3, .text = "kept"}, {.event = 4, .text = "late"}};
  for (int i = 0; i < 2; ++i)
    b.trace.events.push_back({.action = AllocationAction::kUserDefined, .address = 0x1000});
  const AnnotatedBlocks named = annotated_blocks(b.trace, b.live, 3);
  EXPECT_THAT(shown(named.metadata), ElementsAre(" 2 5120", "weights, kept 1 1024"));
  EXPECT_THAT(named.annotations, IsEmpty());
}

TEST(AnnotatedBlocks, OfAnEarlierBlockAtTheSameAddressIsNothing) {
  Blocks b(1);
  b.trace.metadata = {{.event = 0, .text = "gone"}};
  b.trace.events.push_back({.action = AllocationAction::kFreeRequested, .address = 0x1000});
  b.trace.events.push_back({.action = AllocationAction::kAlloc, .address = 0x1000});
  b.live[0].event = 2;
  EXPECT_THAT(b.annotated().metadata, IsEmpty());
}

TEST(AnnotatedBlocks, BlocksFromBeforeTheTraceHaveNoName) {
  Blocks b(1);
  b.named("step", -1, 2500);
  b.live.push_back({.address = 0x9000, .bytes = Bytes{512}});
  EXPECT_THAT(shown(b.annotated().annotations), ElementsAre("step 1 1024", " 1 512"));
}

}  // namespace
}  // namespace plimsoll
