#include "runtime/communication/in_process.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace plimsoll::runtime {
namespace {

using testing::HasSubstr;

// What `rank` returns on each rank, played on as many threads.
template <typename F>
auto on_ranks(int64_t ranks, F&& rank, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const InProcessGroup group(ranks, timeout);
  std::vector<decltype(rank(std::declval<Communicator&>()))> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const std::unique_ptr<Communicator> communicator = group.join(r);
      results[static_cast<size_t>(r)] = rank(*communicator);
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

at::Tensor values_of(int64_t rank, int64_t n, at::ScalarType dtype) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(rank));
  return at::randn({n}, generator, at::TensorOptions(at::kFloat)).mul_(1 + 1000 * (rank % 2)).to(dtype);
}
// In the ranks' order, in fp64 or in fp32, rounded once.
at::Tensor sum_of(int64_t ranks, int64_t n, at::ScalarType dtype) {
  const at::ScalarType added = dtype == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sum = values_of(0, n, dtype).to(added);
  for (int64_t r = 1; r < ranks; ++r) sum.add_(values_of(r, n, dtype).to(added));
  return sum.to(dtype);
}

struct Case {
  int64_t ranks;
  at::ScalarType dtype;
};
class InProcess : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Ranks, InProcess,
                         testing::Values(Case{1, at::kFloat}, Case{2, at::kFloat}, Case{3, at::kFloat},
                                         Case{4, at::kFloat}, Case{2, at::kBFloat16}, Case{3, at::kBFloat16},
                                         Case{4, at::kDouble}));

TEST_P(InProcess, SumsAreTheRankOrderSumsToTheBit) {
  const auto [ranks, dtype] = GetParam();
  for (const int64_t n : {1, 7, 2047, 100003}) {
    const auto sums = on_ranks(ranks, [&, dtype = dtype](Communicator& c) {
      at::Tensor t = values_of(c.rank(), n, dtype);
      EXPECT_TRUE(c.all_reduce(t)->wait());
      return t;
    });
    for (const at::Tensor& sum : sums) EXPECT_TRUE(sum.equal(sum_of(ranks, n, dtype))) << n;
  }
}

TEST_P(InProcess, ScatteredSumsGatheredAreTheWholeSum) {
  const auto [ranks, dtype] = GetParam();
  constexpr int64_t kPart = 1025;
  const int64_t n = kPart * ranks;
  const auto sums = on_ranks(ranks, [&, dtype = dtype](Communicator& c) {
    at::Tensor whole = values_of(c.rank(), n, dtype), gathered = at::empty({n}, dtype);
    at::Tensor part = gathered.narrow(0, c.rank() * kPart, kPart);  // in place
    const auto scattering = c.reduce_scatter(part, whole);
    const auto gathering = c.all_gather(gathered, part);  // begins after it, unasked
    EXPECT_TRUE(gathering->wait());
    EXPECT_TRUE(scattering->wait());
    EXPECT_TRUE(whole.equal(values_of(c.rank(), n, dtype))) << "the summands changed";
    return gathered;
  });
  for (const at::Tensor& sum : sums) EXPECT_TRUE(sum.equal(sum_of(ranks, n, dtype)));
}

std::vector<std::string> messages(const std::vector<Result<void>>& results) {
  std::vector<std::string> all;
  for (const Result<void>& r : results) all.push_back(r ? "" : r.error().message);
  return all;
}

TEST(InProcessFaults, RanksThatCallDifferentThingsAreTold) {
  const auto results = on_ranks(3, [](Communicator& c) -> Result<void> {
    at::Tensor t = at::ones({c.rank() == 1 ? 8 : 4}, at::kFloat);
    return c.all_reduce(t)->wait();
  });
  EXPECT_THAT(messages(results), testing::Each(testing::AllOf(HasSubstr("all_reduce of 8 Float on rank 1"),
                                                              HasSubstr("all_reduce of 4 Float on rank"))));
}

TEST(InProcessFaults, ARankThatLeavesIsNamedAndNothingRunsAfterwards) {
  const auto results = on_ranks(3, [](Communicator& c) -> Result<void> {
    if (c.rank() == 2) return {};
    at::Tensor t = at::ones({4}, at::kFloat);
    EXPECT_FALSE(c.all_reduce(t)->wait());
    return c.all_reduce(t)->wait();
  });
  EXPECT_THAT(messages(results),
              testing::ElementsAre(HasSubstr("rank 2 is gone"), HasSubstr("rank 2 is gone"), ""));
}

TEST(InProcessFaults, ARankThatIsLateIsNamed) {
  const auto results = on_ranks(
      2,
      [](Communicator& c) -> Result<void> {
        if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
        at::Tensor t = at::ones({4}, at::kFloat);
        return c.rank() == 0 ? c.all_reduce(t)->wait() : Result<void>{};
      },
      std::chrono::milliseconds(50));
  EXPECT_THAT(messages(results)[0], HasSubstr("rank 1 does not come in time"));
}

TEST(InProcessFaults, TensorsThatDoNotFitAreRefused) {
  const auto results = on_ranks(2, [](Communicator& c) -> Result<void> {
    at::Tensor whole = at::ones({9}, at::kFloat), part = at::ones({4}, at::kFloat);
    at::Tensor bf16 = at::ones({8}, at::kBFloat16), longs = at::ones({8}, at::kLong);
    at::Tensor columns = at::ones({4, 4}, at::kFloat).t();
    EXPECT_THAT(c.all_gather(bf16, part)->wait().error().message,
                HasSubstr("a part of Float and a whole of"));
    EXPECT_THAT(c.all_reduce(longs)->wait().error().message, HasSubstr("dtype Long"));
    EXPECT_THAT(c.all_reduce(columns)->wait().error().message, HasSubstr("not contiguous"));
    return c.all_gather(whole, part)->wait();
  });
  EXPECT_THAT(messages(results),
              testing::Each(HasSubstr("a part of 4 and a whole of 9 elements on 2 ranks")));
}

}  // namespace
}  // namespace plimsoll::runtime
