#include "frameworks/megatron/buffers.h"

#include <gtest/gtest.h>

namespace plimsoll::megatron {
namespace {

ResolvedJob job_of(int64_t data_ranks, bool is_distributed) {
  ResolvedJob job{.framework = Framework::kMegatron, .megatron = MegatronSettings{}};
  job.mesh.data = data_ranks;
  job.megatron->has_distributed_optimizer = is_distributed;
  return job;
}

std::vector<StageParameter> three(int64_t a, int64_t b, int64_t c) {
  return {{.name = "a", .shape = {a}}, {.name = "b", .shape = {b}}, {.name = "c", .shape = {c}}};
}

TEST(MegatronBuffers, LayParametersOutFromTheLast) {
  const BufferLayout layout = buffer_layout(three(10, 20, 30), job_of(4, false), false, 4);
  EXPECT_EQ(layout.parameters[2].first, 0);
  EXPECT_EQ(layout.parameters[1].first, 30);
  EXPECT_EQ(layout.parameters[0].first, 50);
  EXPECT_EQ(layout.elements(), 60);
}

// 64 elements for each start; the bucket's end for 128 elements and the ranks: lcm(6, 128) = 384.
TEST(MegatronBuffers, PadForTheDistributedOptimizer) {
  const BufferLayout layout = buffer_layout(three(10, 20, 30), job_of(6, true), false, 6);
  EXPECT_EQ(layout.parameters[1].first, 64);
  EXPECT_EQ(layout.parameters[0].first, 128);
  EXPECT_EQ(layout.elements(), 384);
}

TEST(MegatronBuffers, EndABucketAtFortyMillionElements) {
  const BufferLayout layout =
      buffer_layout(three(30'000'000, 30'000'000, 20'000'000), job_of(8, true), true, 8);
  ASSERT_EQ(layout.buckets.size(), 2U);
  EXPECT_EQ(layout.buckets[0].size(), 50'000'000);  // a multiple of 128 as it is
}

TEST(MegatronBuffers, OwnedPartsMakeUpEveryParameter) {
  const std::vector<StageParameter> parameters = three(1000, 20, 777);
  const BufferLayout layout = buffer_layout(parameters, job_of(8, true), false, 8);
  for (size_t i = 0; i < parameters.size(); ++i) {
    int64_t owned = 0;
    for (int64_t rank = 0; rank < 8; ++rank) owned += owned_ranges(layout, rank, 8)[i].size();
    EXPECT_EQ(owned, parameters[i].elements());
  }
}

}  // namespace
}  // namespace plimsoll::megatron
