// What offloaded programs hold on each tier, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "frameworks/native/small_training.h"
#include "program/text.h"

namespace plimsoll::native {
namespace {

using testing::HasSubstr;

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<std::string> kActivations = {"offload.activations=host", "offload.min_offload_size=0"};
const std::vector<std::string> kHost = {"offload.optimizer=host"};
const std::vector<std::string> kDisk = {"offload.optimizer=disk", "offload.directory=/tmp"};
const std::vector<std::string> kParameters = {"offload.parameters=host"};

std::vector<uint32_t> step_sections(const Training& t) {
  std::vector<uint32_t> sections;
  for (const MicroStep& m : t.micro_steps) sections.insert(sections.end(), {m.forward, m.backward});
  sections.push_back(t.step);
  return sections;
}

// ---- activations ----

struct Kept {
  int64_t device = 0, host = 0, peak = 0;  // activations after the forward; highest in forward and backward
};
Kept kept(int64_t layers, const std::vector<std::string>& settings) {
  const Training t = training_of(small("llama", layers), settings);
  Holdings holdings(t);
  holdings.play({t.load}).play({t.micro_steps[0].forward});
  Kept kept{.device = holdings.live(Tier::kGpu, Category::kActivation),
            .host = holdings.live(Tier::kHostPinned, Category::kActivation),
            .peak = holdings.peak(Tier::kGpu, Category::kActivation)};
  holdings.play({t.micro_steps[0].backward});
  kept.peak = std::max(kept.peak, holdings.peak(Tier::kGpu, Category::kActivation));
  return kept;
}

struct RecomputeCase {
  std::string mode;
  int64_t unread;  // bytes that a block keeps and its backward doesn't read: of the last product's result
};
class Recomputes : public testing::TestWithParam<RecomputeCase> {};
constexpr int64_t kHiddenBytes = int64_t{2} * 16 * 32 * 2;  // micro-batch x sequence x hidden, bf16
INSTANTIATE_TEST_SUITE_P(Native, Recomputes,
                         testing::Values(RecomputeCase{"none", 0}, RecomputeCase{"full", 0},
                                         RecomputeCase{"selective", kHiddenBytes}));

// All blocks but the last leave with what they keep, and however many there are, the device never holds more
// than it would of a model of two.
TEST_P(Recomputes, TheDeviceHoldsActivationsOfTwoBlocks) {
  const std::vector<std::string> own = {"recompute.mode=" + GetParam().mode};
  constexpr int64_t kLayers = 7;
  const Kept two = kept(2, own), whole = kept(kLayers, own), offloaded = kept(kLayers, own + kActivations);
  const int64_t of_block = (whole.device - two.device) / (kLayers - 2);
  EXPECT_GT(of_block, 0);
  EXPECT_EQ(whole.host, 0);
  EXPECT_EQ(offloaded.host, (kLayers - 1) * (of_block - GetParam().unread));
  EXPECT_EQ(offloaded.device, whole.device - (kLayers - 1) * of_block);
  EXPECT_LE(offloaded.peak, two.peak);
  EXPECT_EQ(offloaded.peak, kept(kLayers + 3, own + kActivations).peak);
}

TEST(NativeOffload, SmallActivationsStay) {
  const std::vector<std::string> settings = {"offload.activations=host"};
  const Training all =
      training_of(small("llama", 4), settings + std::vector<std::string>{"offload.min_offload_size=0"});
  const Training large = training_of(small("llama", 4), settings);
  const auto least = [](const Training& t) {
    int64_t bytes = int64_t{1} << 40;
    for (const Storage& s : t.program.storages)
      if (s.tier == Tier::kHostPinned) bytes = std::min(bytes, s.bytes.value);
    return bytes;
  };
  EXPECT_LT(least(all), OffloadSettings{}.min_offload_size);
  EXPECT_GE(least(large), OffloadSettings{}.min_offload_size);
}

TEST(NativeOffload, WithoutAnythingThatLeavesTheProgramIsTheSame) {
  const Architecture a = small("qwen3", 3);
  const std::string plain = to_text(training_of(a, {}).program);
  EXPECT_EQ(
      to_text(training_of(a, {"offload.activations=host", "offload.min_offload_size=1000000000"}).program),
      plain);
  EXPECT_NE(to_text(training_of(a, {"offload.activations=host"}).program), plain);
}

// ---- optimizer states ----

class OffloadStages : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Native, OffloadStages, testing::Values(0, 1, 2, 3));

int64_t on_disk(const Training& t, int64_t shards) {
  int64_t bytes = 0;
  for (const UnitTensors& u : t.units) bytes += round_up(4 * u.unit.elements / shards, kDiskAlignment);
  return bytes;
}

// Per parameter of the rank's part: 4 bytes of masters, 8 of AdamW's moments, 4 of gradients.
TEST_P(OffloadStages, TheHostHoldsWhatTheDeviceWould) {
  const int64_t stage = GetParam(), shards = stage >= 1 ? kRanks : 1;
  const Training t = training_of(small("llama"), with_stage(stage, kHost));
  const int64_t all = elements_of(t), part = all / shards;
  Holdings holdings(t);
  holdings.play({t.load});
  EXPECT_EQ(holdings.live(Tier::kGpu, Category::kParameter), 2 * (stage >= 3 ? part : all));
  EXPECT_EQ(holdings.live(Tier::kGpu, Category::kMasterParameter), 0);
  EXPECT_EQ(holdings.live(Tier::kGpu, Category::kOptimizerState), 0);
  EXPECT_EQ(holdings.live(Tier::kHost, Category::kMasterParameter), 4 * part);
  EXPECT_EQ(holdings.live(Tier::kHost, Category::kOptimizerState), 8 * part);
  holdings.play({t.micro_steps[0].forward, t.micro_steps[0].backward});
  EXPECT_EQ(holdings.live(Tier::kGpu, Category::kGradient), 0);
  EXPECT_EQ(holdings.live(Tier::kHostPinned, Category::kGradient), 4 * part);
}

// While a unit is updated, the next is read and the one before written: no more are on the host.
TEST_P(OffloadStages, OfStatesOnDiskTheHostHoldsThreeUnits) {
  const int64_t shards = GetParam() >= 1 ? kRanks : 1;
  const Training t = training_of(small("llama", 8), with_stage(GetParam(), kDisk));
  Holdings holdings(t);
  holdings.play({t.load});
  EXPECT_EQ(holdings.live(Tier::kDisk, Category::kMasterParameter), on_disk(t, shards));
  EXPECT_EQ(holdings.live(Tier::kDisk, Category::kOptimizerState), 2 * on_disk(t, shards));
  for (const Tier tier : {Tier::kGpu, Tier::kHost, Tier::kHostPinned})
    EXPECT_EQ(holdings.live(tier, Category::kOptimizerState), 0);
  int64_t three = 0;
  for (size_t u = 0; u + 2 < t.units.size(); ++u) {
    int64_t bytes = 0;
    for (size_t i = u; i < u + 3; ++i)
      bytes += round_up(4 * t.units[i].unit.elements / shards, kDiskAlignment);
    three = std::max(three, bytes);
  }
  holdings.play(step_sections(t));
  EXPECT_EQ(holdings.peak(Tier::kHostPinned, Category::kMasterParameter), three);
  EXPECT_EQ(holdings.peak(Tier::kHostPinned, Category::kOptimizerState), 2 * three);
}

TEST_P(OffloadStages, StepsLeaveNothingBehind) {
  for (const auto& offload : {kActivations, kHost, kDisk, kActivations + kDisk}) {
    const Training t =
        training_of(small("qwen3", 3),
                    with_stage(GetParam(), offload + std::vector<std::string>{"batch.accumulation=3"}));
    Holdings holdings(t);
    Held before = holdings.play({t.load}).now();
    Held after = holdings.play(step_sections(t)).now();
    for (const auto& [key, bytes] : after)
      EXPECT_EQ(bytes, before[key]) << name_of(key.second) << " on " << name_of(key.first);
    const std::string text = to_text(t.program);
    const Result<Program> parsed = parse_program(text, "test");
    ASSERT_TRUE(parsed) << parsed.error().to_text();
    EXPECT_EQ(to_text(*parsed), text);
  }
}

TEST(NativeOffload, MemoryThatIsCopiedIsPinnedUnlessAskedOtherwise) {
  for (const bool is_pinned : {true, false}) {
    const Training t = training_of(
        small("llama"),
        kHost + kActivations +
            std::vector<std::string>{std::string("offload.pin_memory=") + (is_pinned ? "true" : "false")});
    int64_t pinned = 0;
    for (const Storage& s : t.program.storages)
      if (s.tier == Tier::kHostPinned) pinned += s.bytes.value;
    EXPECT_EQ(pinned > 0, is_pinned);
  }
}

// ---- parameters ----

// The rank's part is on the host; on the device are two units at most, and their parts on the way there.
TEST(NativeOffload, ParametersComeToTheDeviceAUnitAtATime) {
  for (const int64_t ranks : {int64_t{1}, kRanks}) {
    const std::vector<std::string> job = {"parallel.engine=zero", "zero.stage=3",
                                          "hardware.gpus=" + std::to_string(ranks)};
    const Training t = training_of(small("llama", 6), job + kHost + kParameters);
    const int64_t part = elements_of(t) / ranks;
    Holdings holdings(t);
    holdings.play({t.load});
    EXPECT_EQ(holdings.live(Tier::kGpu, Category::kParameter), 0);
    EXPECT_EQ(holdings.live(Tier::kGpu, Category::kUnshardedParameter), 0);
    EXPECT_EQ(holdings.live(Tier::kHostPinned, Category::kParameter), 2 * part);
    EXPECT_EQ(holdings.live(Tier::kHost, Category::kMasterParameter), 4 * part);
    int64_t largest = 0;
    for (const UnitTensors& u : t.units) largest = std::max(largest, u.unit.elements);
    holdings.play(step_sections(t));
    EXPECT_LE(holdings.peak(Tier::kGpu, Category::kUnshardedParameter), 2 * 2 * largest);
    EXPECT_LE(holdings.peak(Tier::kGpu, Category::kGatherBuffer), 3 * 2 * largest / ranks);
    EXPECT_EQ(holdings.peak(Tier::kGpu, Category::kGatherBuffer) > 0, ranks > 1);
    EXPECT_EQ(holdings.live(Tier::kGpu, Category::kUnshardedParameter), 0);
    EXPECT_EQ(holdings.live(Tier::kGpu, Category::kGatherBuffer), 0);
  }
}

// In fp32 the parameters on the host are the masters.
TEST(NativeOffload, ParametersInFp32OnTheHostAreTheirMasters) {
  const Training t = training_of(
      small("llama"), with_stage(3, kHost + kParameters + std::vector<std::string>{"precision=fp32"}));
  Holdings holdings(t);
  holdings.play({t.load});
  EXPECT_EQ(holdings.live(Tier::kHostPinned, Category::kParameter), 4 * elements_of(t) / kRanks);
  EXPECT_EQ(holdings.live(Tier::kHost, Category::kMasterParameter), 0);
  EXPECT_EQ(t.units[0].master, t.units[0].shard);
}

TEST(NativeOffload, ContradictionsAreRefusedByName) {
  const auto error = [](const std::vector<std::string>& settings) {
    const auto job = job_of(small("llama"), settings);
    return job ? std::string() : job.error().to_text();
  };
  EXPECT_THAT(error({"offload.activations=disk"}),
              HasSubstr("\"offload.activations\": activations are not kept on disk"));
  EXPECT_THAT(error({"offload.parameters=disk"}),
              HasSubstr("\"offload.parameters\": parameters are not kept on disk"));
  EXPECT_THAT(error({"offload.optimizer=disk"}), HasSubstr("offload.directory"));
  EXPECT_THAT(error(with_stage(2, kHost + kParameters)), HasSubstr("zero.stage = 3"));
  EXPECT_THAT(error(with_stage(3, kParameters)), HasSubstr("offload.optimizer = host or disk"));
  EXPECT_THAT(error({"offload.min_offload_size=0"}), HasSubstr("expected: offload.activations = host"));
  EXPECT_THAT(error({"framework=pytorch", "offload.optimizer=host"}), HasSubstr("framework = native"));
  EXPECT_EQ(error(with_stage(3, kHost + kParameters + kActivations)), "");
}

}  // namespace
}  // namespace plimsoll::native
