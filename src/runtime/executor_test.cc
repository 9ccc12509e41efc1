// How what goes wrong in an op comes out: with the op, its module and everything that the error said.
#include "runtime/executor.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "program/ops.h"
#include "program/recorder.h"
#include "runtime/tiny_run.h"

namespace plimsoll::runtime {
namespace {

using testing::HasSubstr;

// A run of one rank that has loaded `weights`.
Result<void> load(const WeightSource& weights) {
  PLIMSOLL_TRY(architecture, tiny_llama());
  Job job;
  job.framework = Framework::kNative;
  job.model.name = "tiny";
  PLIMSOLL_CHECK(apply_setting(job, "batch.sequence=16"));
  PLIMSOLL_TRY(resolved, resolve(job, architecture, {.name = "cpu"}));
  PLIMSOLL_TRY(run, TrainingRun::make({.architecture = architecture, .job = resolved, .weights = weights}));
  return run->load();
}

TEST(OpErrors, KeepPlaceHintAndWhoseFaultItIs) {
  const Result<void> loaded = load([](const ParameterTensor&, size_t, at::Tensor&) -> Result<void> {
    return fail({.position = {.file = "shard-7.safetensors", .key = "lm_head"},
                 .message = "is cut short",
                 .expected = "535904 bytes",
                 .hint = "copy it again"});
  });
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().position.file, "shard-7.safetensors");
  EXPECT_EQ(loaded.error().position.key, "lm_head");
  EXPECT_THAT(loaded.error().message, testing::StartsWith("plimsoll::load_weights in "));
  EXPECT_THAT(loaded.error().message, HasSubstr(": is cut short"));
  EXPECT_EQ(loaded.error().expected, "535904 bytes");
  EXPECT_EQ(loaded.error().hint, "copy it again");
  EXPECT_FALSE(loaded.error().is_internal);
}

TEST(OpErrors, ExceptionsOfAnyKindHaveTheirOp) {
  const auto message_of = [](const std::function<void()>& thrown) {
    const Result<void> loaded = load([&](const ParameterTensor&, size_t, at::Tensor&) -> Result<void> {
      thrown();
      return {};
    });
    EXPECT_TRUE(!loaded && loaded.error().is_internal);
    return loaded ? std::string() : loaded.error().message;
  };
  for (const std::string& message : {message_of([] { throw std::runtime_error("broken"); }),
                                     message_of([] { TORCH_CHECK(false, "broken"); })}) {
    EXPECT_THAT(message, testing::StartsWith("plimsoll::load_weights in "));
    EXPECT_THAT(message, testing::EndsWith(": broken"));
  }
  EXPECT_THAT(message_of([] { throw std::bad_alloc(); }), HasSubstr("not enough memory"));
}

constexpr int64_t kTooMany = int64_t{1} << 50;  // bytes: more than addresses

TEST(OpErrors, MemoryThatIsNotThereIsNamedByOpModuleCategoryAndBytes) {
  std::vector<std::pair<Tier, std::string>> all = {
      {Tier::kGpu, "not enough memory for 1125899906842624 bytes"},
      {Tier::kHost, "the host has no memory for 1125899906842624 bytes"}};
#ifdef __SANITIZE_ADDRESS__
  all.pop_back();  // there an allocation of that size ends the process
#endif
  for (const auto& [tier, whose] : all) {
    Program program;
    program.is_complete = true;
    Recorder r(program, Recorder::Mode::kComplete);
    {
      const With<Tier> on(r.tier, tier);
      const With<Category> category(r.category, Category::kGradient);
      const With<ModuleId> module(r.module, program.module("layers.7"));
      const Value huge = ops::zeros(r, {kTooMany / 4}, DType::kFloat32);
    }
    r.finish();
    program.sections.push_back({.name = "all",
                                .first_statement = 0,
                                .last_statement = static_cast<uint32_t>(program.statements.size())});
    auto executor = Executor::make(program, {.allocator = &MeasuredAllocator::install()});
    ASSERT_TRUE(executor) << executor.error().to_text();
    const Result<void> played = executor->play(0);
    ASSERT_FALSE(played);
    EXPECT_THAT(played.error().message, HasSubstr(" in layers.7: "));
    EXPECT_THAT(played.error().message, HasSubstr(whose));
    EXPECT_THAT(played.error().message, testing::EndsWith(" of gradient"));
  }
}

TEST(OpErrors, MemoryOfAnOperatorsOwnSaysSo) {
  MeasuredAllocator::install();
  try {
    (void)at::empty({kTooMany}, at::TensorOptions(at::kByte));
    FAIL() << "there are so many";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what_without_backtrace(),
                HasSubstr("not enough memory for 1125899906842624 bytes of what the operator takes besides"));
  }
}

// Alone, and told of a rank that is gone after so many ops.
class Failing final : public Communicator {
 public:
  explicit Failing(int ops) : left_(ops) {}
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 1; }
  std::unique_ptr<Work> all_reduce(at::Tensor&) override { return nullptr; }
  std::unique_ptr<Work> reduce_scatter(at::Tensor&, at::Tensor&) override { return nullptr; }
  std::unique_ptr<Work> all_gather(at::Tensor&, at::Tensor&) override { return nullptr; }
  double seconds_under_way() const override { return 0; }
  std::optional<Error> failure() const override {
    if (left_-- > 0) return std::nullopt;
    return Error{.message = "rank 3 is gone", .is_internal = true};
  }

 private:
  mutable int left_;
};

TEST(Executor, StopsComputingWhenTheCommunicatorHasFailed) {
  constexpr int kOps = 5;
  for (const int ops : {0, kOps}) {
    Failing communicator(ops);
    const Result<TinyRun> run = play_tiny(communicator, {"batch.sequence=16"}, 1);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().message, "rank 3 is gone");
    EXPECT_TRUE(run.error().is_internal);
  }
}

}  // namespace
}  // namespace plimsoll::runtime
