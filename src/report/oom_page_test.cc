#include "report/oom_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

OutOfMemoryMessage in_container() {
  return {.kind = "CUDA",
          .tried = kMiB * 362,
          .device = 0,
          .capacity = *parse_bytes("14.75 GiB"),
          .free = *parse_bytes("8.81 MiB"),
          .allocated = *parse_bytes("14.25 GiB"),
          .reserved_unallocated = *parse_bytes("363.85 MiB"),
          .processes = {{2274, *parse_bytes("14.74 GiB")}}};
}

TEST(OomPage, TheTableCountsEachByteOnce) {
  const std::string page = oom_page("log", {in_container()}, {});
  EXPECT_THAT(page, AllOf(HasSubstr("of this process, beside PyTorch's allocator  137.91 MiB"),
                          Not(HasSubstr("process 2274")), HasSubstr("Process 2274 is this one")));
}

TEST(OomPage, JsonSaysHowThisProcessIsKnown) {
  const auto json = nlohmann::json::parse(oom_json("log", {in_container()}, {}, {}))["messages"][0];
  EXPECT_EQ(json["own_process"]["id"], 2274);
  EXPECT_EQ(json["own_process"]["how"], "by-sums");
  EXPECT_TRUE(json["other_processes"].empty());
  EXPECT_EQ(json["in_use_bytes"], parse_bytes("14.74 GiB")->value);
}

TEST(OomPage, OneOfSeveralProcesses) {
  OutOfMemoryMessage m = in_container();
  m.capacity = kGiB * 30;
  m.processes.push_back({9, kGiB * 15});
  EXPECT_THAT(oom_page("log", {m}, {}), HasSubstr("processes 2274, 9, beside the above"));
}

}  // namespace
}  // namespace plimsoll
