#include "report/oom_request.h"

#include <gtest/gtest.h>

#include "allocator/rounding.h"

namespace plimsoll {
namespace {

std::vector<TensorRange> ranges(Bytes tried, OomWording wording = OomWording::kFrom21) {
  return tensor_ranges({.wording = wording, .kind = "CUDA", .tried = tried});
}

TEST(OomRequest, OfASegment) {
  using Ranges = std::vector<TensorRange>;
  EXPECT_EQ(ranges(kMiB * 2), (Ranges{{Bytes{}, kMiB}}));
  EXPECT_EQ(ranges(kMiB * 20), (Ranges{{kMiB, kMiB * 10}, {kMiB * 18, kMiB * 20}}));
  EXPECT_EQ(ranges(kMiB * 376), (Ranges{{kMiB * 374, kMiB * 376}}));
  EXPECT_EQ(ranges(kMiB * 3), Ranges{});  // no segment of today
  EXPECT_EQ(ranges(Bytes{512}), Ranges{});
  EXPECT_EQ(ranges(kMiB * 20, OomWording::kMps), Ranges{});
  EXPECT_EQ(ranges(kMiB * 20, OomWording::kAsync), Ranges{});
}

// Every tensor lies in a range of the segment that it gets.
TEST(OomRequest, RangesHoldTheTensors) {
  for (uint64_t size = kMinBlock; size < (uint64_t{64} << 20); size += 7 * kMinBlock) {
    const Bytes tensor{static_cast<int64_t>(size)};
    const Bytes segment{static_cast<int64_t>(segment_size_for(size, kLargeSegment))};
    bool is_held = false;
    for (const TensorRange& range : ranges(segment)) is_held |= tensor > range.above && tensor <= range.up_to;
    ASSERT_TRUE(is_held) << size;
    ASSERT_GE(tensor, smallest_tensor({.tried = segment}));
  }
}

TEST(OomRequest, Text) {
  EXPECT_EQ(tensor_text({.tried = kMiB * 2}), "a tensor of up to 1.00 MiB");
  EXPECT_EQ(tensor_text({.tried = kMiB * 20}),
            "a tensor of 1.00 MiB to 10.00 MiB or of 18.00 MiB to 20.00 MiB");
  EXPECT_EQ(tensor_text({.tried = kGiB * 3}), "");  // as near as the message rounds
}

}  // namespace
}  // namespace plimsoll
