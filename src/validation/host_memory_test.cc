// Host memory of offloaded shards.
#include <gtest/gtest.h>

#include <bit>

#include "validation/small_jobs.h"

namespace plimsoll {
namespace {

// Powers of two neither in width nor in rows.
constexpr SmallLlama kOdd{.vocab = 1000, .hidden = 192, .intermediate = 300, .heads = 3, .kv_heads = 1};

Program offloaded(bool pins) {
  return program_of(kOdd, [&](Job& job) {
    job.hardware.gpus = 2;
    job.precision = Precision::kFloat32;
    job.fsdp2.cpu_offload = true;
    job.fsdp2.pin_memory = pins;
  });
}

Bytes shards_on_host(const Program& program, bool rounds) {
  Bytes sum;
  for (const Storage& s : program.storages) {
    if (s.category != Category::kParameter || s.tier == Tier::kGpu) continue;
    const auto bytes = static_cast<uint64_t>(s.bytes.value);
    sum += Bytes{static_cast<int64_t>(rounds ? std::bit_ceil(bytes) : bytes)};
  }
  return sum;
}

TEST(HostMemory, PageableShardsTakeTheirBytes) {
  const Program program = offloaded(false);
  EXPECT_EQ(phase_of(play(program), "load").host_end, shards_on_host(program, false));
}

TEST(HostMemory, PinnedShardsTakePowersOfTwo) {
  const Program program = offloaded(true);
  const Bytes rounded = shards_on_host(program, true);
  EXPECT_GT(rounded, shards_on_host(program, false));
  EXPECT_EQ(phase_of(play(program), "load").host_end, rounded);
}

// PyTorch keeps pinned blocks for the next request of their size: those of the gradients, after zero_grad.
TEST(HostMemory, PinnedMemoryIsNotGivenBack) {
  const Program pinned = offloaded(true), pageable = offloaded(false);
  const Bytes shards = shards_on_host(pinned, false), rounded = shards_on_host(pinned, true);
  const Bytes more = phase_of(play(pinned), "zero1").host_end - phase_of(play(pageable), "zero1").host_end;
  EXPECT_EQ(more, rounded * 2 - shards);
}

}  // namespace
}  // namespace plimsoll
