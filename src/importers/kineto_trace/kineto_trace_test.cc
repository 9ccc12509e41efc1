#include "importers/kineto_trace/kineto_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string instant(const std::string& name, const std::string& ts, const std::string& arguments) {
  return R"(  {
    "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": ")" +
         name + R"(",
    "pid": 7, "tid": 8,
    "ts": )" +
         ts + R"(,
    "args": {
      "Ev Idx": 4, )" +
         arguments + "\n    }\n  }";
}
std::string memory(const std::string& ts, const std::string& bytes, const std::string& allocated) {
  return instant("[memory]", ts,
                 R"("Device Type": 1, "Device Id": 1, "Addr": 139926520725504, "Bytes": )" + bytes +
                     R"(, "Total Allocated": )" + allocated + R"(, "Total Reserved": 8192)");
}
std::string trace(const std::string& events) {
  return R"({
  "schemaVersion": 1,
  "deviceProperties": [
    {"id": 0, "name": "A", "totalGlobalMem": 10},
    {"id": 1, "name": "Tesla V100", "totalGlobalMem": 34089730048, "numSms": 80}
  ],
  "distributedInfo": {"backend": "nccl", "rank": 1},
  "traceEvents": [
)" + events +
         R"(
  ],
  "traceName": "/tmp/t.json"
})";
}
const std::string kOp = R"(  {
    "ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 5, "dur": 45,
    "args": {"External id": 3073, "Bytes": 5, "Input Dims": [[2, 3], []]}
  })";

TEST(KinetoTrace, ReadsInstantsInTheOrderOfTheirTimes) {
  const auto read = read_kineto_trace_bytes(
      trace(
          kOp + ",\n" + memory("1669783687464301.250", "-512", "1024") + ",\n" +
          memory("1669783687464300", "512", "1536") + ",\n" +
          instant("[memory]", "7",
                  R"("Device Type": 0, "Device Id": -1, "Addr": 1, "Bytes": 64, "Total Allocated": 0,
              "Total Reserved": 0)") +
          ",\n" +
          instant(
              "[OutOfMemory]", "1669783687464302",
              R"("Device Type": 1, "Device Id": 1, "Bytes": 4096, "Total Allocated": 1024, "Total Reserved": 2048)")),
      "t");
  ASSERT_TRUE(read) << read.error().to_text();
  EXPECT_THAT(read->imperfections, IsEmpty());
  ASSERT_EQ(read->devices.size(), 2U);
  const ProfiledDevice& gpu = read->devices[0];
  EXPECT_FALSE(gpu.is_host);
  EXPECT_EQ(gpu.device, 1);
  EXPECT_EQ(gpu.name, "Tesla V100");
  EXPECT_EQ(gpu.capacity, Bytes{34089730048});
  EXPECT_THAT(gpu.instants, ElementsAre(MemoryInstant{.time = Nanoseconds{1669783687464300000},
                                                      .address = 139926520725504,
                                                      .bytes = Bytes{512},
                                                      .allocated = Bytes{1536},
                                                      .reserved = Bytes{8192}},
                                        MemoryInstant{.time = Nanoseconds{1669783687464301250},
                                                      .address = 139926520725504,
                                                      .bytes = Bytes{-512},
                                                      .allocated = Bytes{1024},
                                                      .reserved = Bytes{8192}}));
  EXPECT_THAT(gpu.out_of_memory, ElementsAre(OutOfMemoryInstant{.time = Nanoseconds{1669783687464302000},
                                                                .requested = Bytes{4096},
                                                                .allocated = Bytes{1024},
                                                                .reserved = Bytes{2048}}));
  EXPECT_TRUE(read->devices[1].is_host);
  EXPECT_EQ(read->devices[1].instants.size(), 1U);
}

TEST(KinetoTrace, ArgumentsMayComeFirstAndEventsAlone) {
  const auto read = read_kineto_trace_bytes(
      R"([{"args":{"Addr":1,"Bytes":2,"Device Type":1,"Device Id":0,"Total Allocated":3,"Total Reserved":4},)"
      R"("name":"[memory]","ph":"i","ts":1.5}])",
      "t");
  ASSERT_TRUE(read) << read.error().to_text();
  EXPECT_EQ(read->devices[0].instants[0].time, Nanoseconds{1500});
}

TEST(KinetoTrace, UnescapedQuotesAreTextOrPassedOver) {
  const std::string quoted =
      R"x(  {"ph": "X", "name": "call("a") of "b"", "ts": 1, "args": {"k": "("x")"}})x";
  const std::string broken = R"(  {"ph": "X", "name": "a", "b", "c" }: [[", "ts": 1})";
  const auto fine = read_kineto_trace_bytes(trace(quoted + ",\n" + memory("1", "512", "512")), "t");
  ASSERT_TRUE(fine) << fine.error().to_text();
  EXPECT_THAT(fine->imperfections, IsEmpty());
  EXPECT_EQ(fine->devices[0].instants.size(), 1U);
  const auto passed = read_kineto_trace_bytes(
      trace(memory("1", "512", "512") + ",\n" + broken + ",\n" + memory("2", "512", "1024")), "t");
  ASSERT_TRUE(passed) << passed.error().to_text();
  EXPECT_EQ(passed->devices[0].instants.size(), 2U);
  EXPECT_THAT(passed->imperfections, ElementsAre(TraceImperfection{"events that are no JSON", 1}));
}

TEST(KinetoTrace, IncompleteInstantsAreCounted) {
  const auto read = read_kineto_trace_bytes(
      trace(instant("[memory]", "1", R"("Device Type": 1, "Device Id": 0, "Bytes": 5)") + ",\n" +
            instant("[memory]", "1", R"("Device Type": 1, "Device Id": 0, "Addr": 5, "Bytes": 5)")),
      "t");
  ASSERT_TRUE(read) << read.error().to_text();
  EXPECT_THAT(read->imperfections,
              ElementsAre(TraceImperfection{"memory instants without a time, an address or a size", 1},
                          TraceImperfection{"memory instants without totals (PyTorch before 1.10)", 1}));
}

TEST(KinetoTrace, OtherFilesAreRefused) {
  const auto error_of = [](const std::string& text) {
    const auto read = read_kineto_trace_bytes(text, "t.json");
    return read ? "no error" : read.error().to_text();
  };
  EXPECT_THAT(error_of(trace(kOp)), HasSubstr("holds no memory instants"));
  EXPECT_THAT(error_of("hello"), HasSubstr("t.json, byte 0: is no JSON"));
  EXPECT_THAT(error_of("{\"traceEvents\": [" + kOp), HasSubstr("the JSON ends early"));
}

// Wherever it lies: in a part that is passed over, in an event, in an event's arguments.
TEST(KinetoTrace, WhatIsNestedTooDeepIsNamed) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const auto error_of = [](const std::string& text) {
    const auto read = read_kineto_trace_bytes(text, "t.json");
    return read ? "no error" : read.error().to_text();
  };
  const std::string instant = memory("1", "512", "512");
  const std::string message =
      ": a value has more than 1000 brackets within each other\n"
      "  expected: a trace of the profiler, whose values lie a few brackets deep\n"
      "  hint: write it with export_chrome_trace()";
  EXPECT_EQ(error_of("{\"a\": " + nested(1001) + "}"), "t.json, byte 1006" + message);
  for (const std::string event : {R"({"ph": "X", "name": "a", "deep": )", R"({"ph": "X", "args": {"deep": )",
                                  R"({"name": "[memory]", "ph": "i", "args": {"deep": )"}) {
    const std::string end = event.find("args") == std::string::npos ? "}" : "}}";
    EXPECT_THAT(error_of(trace(instant + ",\n" + event + nested(1001) + end)), HasSubstr(message)) << event;
    EXPECT_EQ(error_of(trace(instant + ",\n" + event + nested(999) + end)), "no error") << event;
  }
}

TEST(KinetoTrace, TruncatedAnywhereIsAnError) {
  const std::string whole = trace(kOp + ",\n" + memory("1", "512", "512"));
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto read = read_kineto_trace_bytes(whole.substr(0, length), "t");
    ASSERT_FALSE(read) << length;
    EXPECT_FALSE(read.error().message.empty());
  }
}

TEST(KinetoTrace, APublicTrace) {
  const std::filesystem::path path =
      PLIMSOLL_SOURCE_DIR "/../shared/inputs/snapshots/chrome_trace_with_memory_events.json.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no ../shared/inputs/snapshots";
  const auto read = read_kineto_trace(path);
  ASSERT_TRUE(read) << read.error().to_text();
  EXPECT_THAT(read->imperfections, IsEmpty());
  ASSERT_EQ(read->devices.size(), 2U);  // one GPU and the host
  const ProfiledDevice& gpu = read->devices[0];
  EXPECT_EQ(gpu.name, "Tesla V100-SXM2-32GB");
  // Counted by Python's json module.
  EXPECT_EQ(gpu.instants.size(), 26770U);
  EXPECT_EQ(read->devices[1].instants.size(), 1240U);
  Bytes peak;
  for (const MemoryInstant& instant : gpu.instants) peak = std::max(peak, instant.allocated);
  EXPECT_EQ(peak, Bytes{6629508096});
  EXPECT_EQ(gpu.instants.back().allocated, Bytes{4096614400});
}

}  // namespace
}  // namespace plimsoll
