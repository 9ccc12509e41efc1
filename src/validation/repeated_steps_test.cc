// Playing a section again must do to memory what writing its statements anew does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/caching_heap.h"
#include "base/data_dir.h"
#include "frameworks/pytorch/training.h"
#include "importers/hf_config/presets.h"
#include "simulator/simulator.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

struct PhaseNumbers {
  std::string phase;
  int64_t live_peak, live_end, allocated_peak, reserved_peak;
  std::string peak_op;
  bool operator==(const PhaseNumbers&) const = default;
  friend void PrintTo(const PhaseNumbers& n, std::ostream* os) {
    *os << n.phase << " live " << n.live_peak << " to " << n.live_end << ", allocated " << n.allocated_peak
        << ", reserved " << n.reserved_peak << " at " << n.peak_op;
  }
};

std::vector<PhaseNumbers> numbers_of(const Program& program) {
  CachingHeap heap;
  std::vector<PhaseNumbers> numbers;
  for (const PhaseMemory& p : simulate(program, heap).phases)
    numbers.push_back({.phase = p.phase,
                       .live_peak = p.live_peak.value,
                       .live_end = p.live_end.value,
                       .allocated_peak = p.allocated_peak.value,
                       .reserved_peak = p.reserved_peak.value,
                       .peak_op = p.peak_op ? std::string(name_of(program.op(*p.peak_op).kind)) : ""});
  return numbers;
}

class RepeatedSteps : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(RepeatedSteps, AreAsIfWritten) {
  const Result<Architecture> architecture = read_preset("llama-3.2-1b", data_dir(), {.layers = 3});
  ASSERT_TRUE(architecture);
  Job job;
  for (const std::string& setting : GetParam()) ASSERT_TRUE(apply_setting(job, setting)) << setting;
  const Result<ResolvedJob> resolved =
      resolve(job, *architecture, {.name = "any", .gpus_per_node = 8, .compute_capability = 90});
  ASSERT_TRUE(resolved) << resolved.error().to_text();
  const Result<Program> repeated = pytorch::build_training(*architecture, *resolved);
  const Result<Program> written =
      pytorch::build_training(*architecture, *resolved, {.writes_every_step = true});
  ASSERT_TRUE(repeated && written);
  EXPECT_EQ(numbers_of(*repeated), numbers_of(*written));
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, RepeatedSteps,
    ::testing::Values(
        std::vector<std::string>{"batch.sequence=512"},
        std::vector<std::string>{"batch.sequence=512", "batch.accumulation=5", "recompute.mode=full"},
        std::vector<std::string>{"batch.sequence=512", "precision=amp-bf16", "batch.accumulation=4"},
        std::vector<std::string>{"hardware.gpus=8", "batch.accumulation=4"},
        std::vector<std::string>{"hardware.gpus=8", "batch.accumulation=5", "loop.no_sync=true"},
        std::vector<std::string>{"hardware.gpus=8", "fsdp2.replicate=2", "batch.accumulation=3"},
        std::vector<std::string>{"hardware.gpus=8", "fsdp2.cpu_offload=true", "batch.accumulation=3"},
        std::vector<std::string>{"hardware.gpus=8", "loop.clip_max_norm=1", "optimizer.name=adamw-fused"},
        std::vector<std::string>{"hardware.gpus=4", "parallel.engine=ddp", "batch.accumulation=4"}));

}  // namespace
}  // namespace plimsoll
