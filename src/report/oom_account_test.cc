#include "report/oom_account.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using Process = OutOfMemoryMessage::Process;

// As a notebook in a container shows it: this process under a number that it doesn't know.
OutOfMemoryMessage in_container() {
  return {.kind = "CUDA",
          .tried = kMiB * 362,
          .capacity = *parse_bytes("14.75 GiB"),
          .free = *parse_bytes("8.81 MiB"),
          .allocated = *parse_bytes("14.25 GiB"),
          .reserved_unallocated = *parse_bytes("363.85 MiB"),
          .processes = {{2274, *parse_bytes("14.74 GiB")}}};
}

TEST(OomAccount, ThisProcessUnderAnotherNumberIsFoundByTheSums) {
  const OutOfMemoryMessage m = in_container();
  const OomAccount account = account_of(m);
  EXPECT_EQ(account.how, OwnProcess::kBySums);
  EXPECT_EQ(account.own, m.processes[0]);
  EXPECT_TRUE(account.others.empty());
  EXPECT_EQ(account.beside,
            *parse_bytes("14.74 GiB") - *parse_bytes("14.25 GiB") - *parse_bytes("363.85 MiB"));
  EXPECT_LT(*account.unnamed, kMiB * 8);  // rounding
}

TEST(OomAccount, OfTwoTheOneThatCanHoldTheTensors) {
  OutOfMemoryMessage m = in_container();
  m.capacity = kGiB * 20;
  m.processes.push_back({7, kGiB * 5});
  const OomAccount account = account_of(m);
  EXPECT_EQ(account.how, OwnProcess::kBySums);
  EXPECT_EQ(account.own->id, 2274);
  EXPECT_EQ(account.others, (std::vector<Process>{{7, kGiB * 5}}));
}

TEST(OomAccount, OfTwoThatCanHoldThemNeitherIsChosen) {
  const OutOfMemoryMessage m = {.tried = kGiB,
                                .capacity = kGiB * 40,
                                .free = kMiB * 500,
                                .allocated = kGiB * 10,
                                .reserved_unallocated = kGiB,
                                .processes = {{1, kGiB * 12}, {2, kGiB * 27}, {3, kMiB * 300}}};
  const OomAccount account = account_of(m);
  EXPECT_EQ(account.how, OwnProcess::kOneOfSeveral);
  EXPECT_EQ(account.one_is_own, (std::vector<Process>{{1, kGiB * 12}, {2, kGiB * 27}}));
  EXPECT_EQ(account.beyond_own, kGiB * (12 + 27 - 11));
  EXPECT_EQ(account.others, (std::vector<Process>{{3, kMiB * 300}}));
  EXPECT_EQ(account.unnamed, kGiB * 40 - kMiB * 500 - kGiB * 39 - kMiB * 300);
}

TEST(OomAccount, AProcessTooSmallIsAnother) {
  OutOfMemoryMessage m = in_container();
  m.capacity = kGiB * 20;
  m.processes = {{9, kGiB * 5}};
  const OomAccount account = account_of(m);
  EXPECT_EQ(account.how, OwnProcess::kNotListed);
  EXPECT_EQ(account.of_others(), kGiB * 5);
  EXPECT_FALSE(account.beside);
}

TEST(OomAccount, WhereBothFitNothingIsClaimed) {
  const OutOfMemoryMessage m = {.tried = kGiB,
                                .capacity = kGiB * 80,
                                .free = kMiB * 500,
                                .allocated = kGiB,
                                .reserved_unallocated = kMiB,
                                .processes = {{1, kGiB * 70}}};
  EXPECT_EQ(account_of(m).how, OwnProcess::kUndecided);
  EXPECT_EQ(account_of(m).of_others(), kGiB * 70);
}

// Without this process's own figures any of them may be it.
TEST(OomAccount, WithoutTheTensorsAnyMayBeThisProcess) {
  const OutOfMemoryMessage m = {
      .tried = kGiB, .capacity = kGiB * 80, .free = kMiB * 500, .processes = {{1, kGiB * 70}}};
  EXPECT_EQ(account_of(m).how, OwnProcess::kUndecided);
}

TEST(OomAccount, ThisProcessNamed) {
  OutOfMemoryMessage m = in_container();
  m.in_use = m.processes[0].in_use;
  m.processes = {{1, kMiB}};
  const OomAccount account = account_of(m);
  EXPECT_EQ(account.how, OwnProcess::kNamed);
  EXPECT_EQ(account.of_others(), kMiB);
  EXPECT_EQ(account.beside, *m.in_use - *m.allocated - *m.reserved_unallocated);
}

TEST(OomAccount, OfMpsTheRestIsMetals) {
  const OutOfMemoryMessage m = {.wording = OomWording::kMps,
                                .tried = kGiB,
                                .in_use = kGiB * 12,
                                .allowed = kGiB * 13,
                                .allocated = kGiB * 5};
  EXPECT_EQ(account_of(m).beside, kGiB * 7);
  EXPECT_FALSE(account_of(m).unnamed);
}

TEST(OomAccount, Rounding) {
  EXPECT_EQ(rounding_of(kGiB * 3), kGiB / 200);
  EXPECT_EQ(rounding_of(kMiB * 3), kMiB / 200);
  EXPECT_EQ(rounding_of(Bytes{512}), Bytes{});
}

}  // namespace
}  // namespace plimsoll
