// Each test is a job of processes (rank_program/main.cc), since ranks that share one could not die alone.
#include "runtime/communication/gloo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/rank_program/run_ranks.h"

namespace plimsoll::runtime {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

// By connections only, or as it chooses on one machine.
class Gloo : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Carriers, Gloo, testing::Values("", "ONLY_MESSAGES=1"),
                         [](const auto& i) { return std::string(i.index == 0 ? "Fastest" : "Messages"); });

TEST_P(Gloo, SumsAreTheRankOrderSumsToTheBit) {
  for (const char* ranks : {"1", "2", "3"}) {
    const RanksRun run = run_ranks(std::string(ranks) + " sums", GetParam());
    EXPECT_EQ(run.exit_code, 0) << ranks << " ranks: " << run.output;
  }
}

TEST_P(Gloo, RanksThatCallDifferentThingsAreTold) {
  const RanksRun run = run_ranks("2 differ", GetParam());
  EXPECT_THAT(run.output, HasSubstr("all_reduce of 8 Float on rank 1"));
  EXPECT_THAT(run.output, HasSubstr("all_reduce of 4 Float on rank 0"));
  EXPECT_EQ(run.exit_code, 4);
}

// Without a launcher that would end them, the others notice by themselves.
TEST_P(Gloo, ARankThatIsKilledIsNamedByTheOthers) {
  const RanksRun run = run_ranks("3 lose kill", GetParam() + " WAITS_FOR_OTHERS=1");
  EXPECT_THAT(run.output, HasSubstr("rank 2 was ended by signal 9"));
  EXPECT_THAT(run.output, HasSubstr("[rank 1] rank 2 is gone (collective"));
  EXPECT_THAT(run.output,
              AnyOf(StartsWith("rank 2 is gone (collective"), HasSubstr("\nrank 2 is gone (collective")));
  EXPECT_LT(run.seconds, 30);  // of which the roll call is 3
}

// Nobody calls a collective for a minute.
TEST_P(Gloo, ARankThatIsKilledIsNamedByRanksThatCompute) {
  const RanksRun run = run_ranks("3 compute 2", GetParam() + " WAITS_FOR_OTHERS=1");
  EXPECT_THAT(run.output, HasSubstr("[rank 1] rank 2 is gone (rank 1 noticed it at rank 2"));
  EXPECT_THAT(run.output, AnyOf(StartsWith("rank 2 is gone (rank 1 noticed it at rank 2"),
                                HasSubstr("\nrank 2 is gone (rank 1 noticed it at rank 2")));
  EXPECT_LT(run.seconds, 30);
}

// It still answers the roll call, so it is not gone.
TEST_P(Gloo, ARankThatComputesForeverIsATimeoutThatNamesIt) {
  const RanksRun run = run_ranks("2 lose sleep", GetParam());
  EXPECT_THAT(run.output, HasSubstr("noticed it at rank 1: "));
  EXPECT_THAT(run.output, HasSubstr("Timed out waiting"));
  EXPECT_EQ(run.exit_code, 4);
}

TEST(GlooStart, RanksThatDoNotComeAreNamed) {
  const RanksRun run = run_ranks("3 absent");
  EXPECT_THAT(run.output, HasSubstr("rank 1 did not come to "));
  EXPECT_EQ(run.exit_code, 4);
}

TEST(GlooStart, AnAddressWithoutAStoreIsAnError) {
  const RanksRun run = run_ranks("- sums",
                                 "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 START_SECONDS=1 "
                                 "MASTER_ADDR=127.0.0.1 MASTER_PORT=9");
  EXPECT_THAT(run.output, HasSubstr("the ranks can't be connected through 127.0.0.1:9"));
  EXPECT_EQ(run.exit_code, 4);
}

size_t count_of(const std::string& text, const std::string& in) {
  size_t count = 0;
  for (size_t at = in.find(text); at != std::string::npos; at = in.find(text, at + 1)) ++count;
  return count;
}

// Rank 0, which is the first to notice, keeps the store and doesn't leave before the others know.
TEST(GlooStart, EveryRankNamesTheSameOne) {
  const std::string rank =
      "RANK=$r LOCAL_RANK=$r WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "
      "'" PLIMSOLL_RANK_PROGRAM "' - compute 1";
  const RanksRun run = run_ranks("- none >/dev/null; port=$((20000 + $$ % 10000)); (for r in 0 1 2; do " +
                                 rank + " & done; wait)");
  EXPECT_EQ(count_of("rank 1 is gone (rank 0 noticed it at rank 1", run.output), 2) << run.output;
  EXPECT_EQ(count_of("store", run.output), 0) << run.output;
}

// Rank 0 keeps the store.
TEST(GlooStart, RanksOfAnotherLauncherMeetByTcp) {
  const std::string common =
      "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port '" PLIMSOLL_RANK_PROGRAM
      "' - sums";
  const RanksRun run = run_ranks("- none >/dev/null; port=$((20000 + $$ % 10000)); RANK=1 LOCAL_RANK=1 " +
                                 common + " & RANK=0 LOCAL_RANK=0 " + common + " && wait $! && echo both");
  EXPECT_THAT(run.output, HasSubstr("both"));
}

}  // namespace
}  // namespace plimsoll::runtime
