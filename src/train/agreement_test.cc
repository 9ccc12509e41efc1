#include "train/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "runtime/communication/in_process.h"
#include "runtime/communication/texts.h"

namespace plimsoll {
namespace {

using runtime::Communicator;
using testing::ElementsAre;

// What each of three ranks gets.
template <typename T>
std::vector<T> on_ranks(const std::function<T(Communicator&)>& rank) {
  constexpr size_t kRanks = 3;
  const runtime::InProcessGroup group(kRanks, std::chrono::seconds(20));
  std::vector<T> results(kRanks);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      const std::unique_ptr<Communicator> communicator = group.join(static_cast<int64_t>(r));
      results[r] = rank(*communicator);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<Result<void>> agreed(const std::function<Result<void>(int64_t)>& own,
                                 const std::function<std::string(int64_t)>& job) {
  return on_ranks<Result<void>>([&](Communicator& c) {
    return agree(c, own(c.rank()), {{.name = "the model", .value = "m"}, {"the job", job(c.rank())}});
  });
}
const auto ready = [](int64_t) { return Result<void>(); };
const auto same_job = [](int64_t) { return std::string("a = 1\n"); };

TEST(GatherTexts, BringsEveryRanksTextAsItIs) {
  const auto text_of = [](int64_t r) {
    return std::string(static_cast<size_t>(r * 5), 'x') + (r ? "\xff" : "");
  };
  const auto texts = on_ranks<std::vector<std::string>>(
      [&](Communicator& c) { return *runtime::gather_texts(c, text_of(c.rank())); });
  for (const auto& all : texts) EXPECT_THAT(all, ElementsAre("", text_of(1), text_of(2)));
  const auto empty =
      on_ranks<std::vector<std::string>>([](Communicator& c) { return *runtime::gather_texts(c, ""); });
  EXPECT_THAT(empty[1], ElementsAre("", "", ""));
}

TEST(Agreement, NothingWrong) {
  for (const Result<void>& result : agreed(ready, same_job)) EXPECT_TRUE(result.has_value());
}

TEST(Agreement, AnErrorOfOneRankIsEverybodysAndNamesIt) {
  const auto own = [](int64_t r) -> Result<void> {
    if (r != 2) return {};
    return fail({.message = "no file", .hint = "a hint", .is_internal = true});
  };
  for (const Result<void>& result : agreed(own, same_job)) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().to_text(), "rank 2: no file\n  hint: a hint");
    EXPECT_TRUE(result.error().is_internal);
  }
}

TEST(Agreement, AnErrorOfAllRanksIsToldAsItIs) {
  const auto own = [](int64_t) -> Result<void> {
    return fail({.position = {.file = "job.toml"}, .message = "is missing"});
  };
  for (const Result<void>& result : agreed(own, same_job)) {
    EXPECT_EQ(result.error().to_text(), "job.toml: is missing");
    EXPECT_FALSE(result.error().is_internal);
  }
}

TEST(Agreement, FactsThatDifferAreNamedByTheirFirstLine) {
  const auto job = [](int64_t r) { return r == 1 ? "a = 1\nb = 2\n" : "a = 1\nb = 3\n"; };
  for (const Result<void>& result : agreed(ready, job)) {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().message, "the ranks differ in the job: b = 3 on ranks 0, 2; b = 2 on rank 1");
    EXPECT_FALSE(result.error().is_internal);
  }
  const auto longer = [](int64_t r) { return r == 0 ? "a = 1\n" : "a = 1\nb = 2\n"; };
  EXPECT_EQ(agreed(ready, longer)[0].error().message,
            "the ranks differ in the job: nothing more on rank 0; b = 2 on ranks 1-2");
}

TEST(Agreement, AnErrorGoesBeforeFactsThatDiffer) {
  const auto own = [](int64_t r) -> Result<void> {
    if (r != 1) return {};
    return fail({.message = "no file"});
  };
  const auto job = [](int64_t r) { return std::to_string(r); };
  for (const Result<void>& result : agreed(own, job)) EXPECT_EQ(result.error().message, "rank 1: no file");
}

TEST(EndTogether, Rank0SaysItOnce) {
  testing::internal::CaptureStderr();
  const auto codes = on_ranks<int>(
      [](Communicator& c) { return end_together(c, {.message = "the loss is nan"}).value_or(-1); });
  EXPECT_THAT(codes, ElementsAre(2, 2, 2));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "plimsoll: the loss is nan\n");
}

TEST(EndTogether, WithoutRank0EachRankHasItsOwnWords) {
  testing::internal::CaptureStderr();
  const auto texts = on_ranks<std::string>([](Communicator& c) -> std::string {
    if (c.rank() == 0) return "died";
    const Result<int> code = end_together(c, {.message = "rank 0 is gone"});
    return code ? "nobody said it" : code.error().message;
  });
  EXPECT_THAT(texts, ElementsAre("died", "rank 0 is gone", "rank 0 is gone"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace plimsoll
