#include "runtime/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace plimsoll::runtime {
namespace {

AllowedCores on(const std::string& machine, int first, int last) {
  AllowedCores allowed{.machine = machine, .cores = {}};
  for (int core = first; core < last; ++core) allowed.cores.push_back(core);
  return allowed;
}

TEST(Cores, AreDividedAmongRanksThatShareThem) {
  const std::vector<AllowedCores> shared = {on("a", 0, 8), on("a", 0, 8), on("b", 0, 8)};
  EXPECT_EQ(cores_of_rank(shared, 0), 4);
  EXPECT_EQ(cores_of_rank(shared, 2), 8);
  const std::vector<AllowedCores> bound = {on("a", 0, 4), on("a", 4, 8)};
  EXPECT_EQ(cores_of_rank(bound, 0), 4);
  EXPECT_EQ(cores_of_rank(bound, 1), 4);
  const std::vector<AllowedCores> many = {on("a", 0, 1), on("a", 0, 1), on("a", 0, 1)};
  EXPECT_EQ(cores_of_rank(many, 1), 1);
}

TEST(Cores, TextsAreReadBack) {
  const AllowedCores read = allowed_cores_of(on("0e1f-22", 3, 6).to_text());
  EXPECT_EQ(read.machine, "0e1f-22");
  EXPECT_EQ(read.cores, (std::vector<int>{3, 4, 5}));
}

// An affinity is a thread's own.
TEST(Cores, AreThoseThatTheThreadMayRunOn) {
  const std::vector<int> all = allowed_cores().cores;
  ASSERT_FALSE(all.empty());
  std::vector<int> bound;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(all.back()), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    bound = allowed_cores().cores;
  }).join();
  EXPECT_EQ(bound, std::vector<int>{all.back()});
}

}  // namespace
}  // namespace plimsoll::runtime
