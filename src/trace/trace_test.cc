#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "trace/allocation_trace.h"
#include "trace/pickle_writer.h"
#include "trace/timeline.h"
#include "trace/torch_snapshot_writer.h"
#include "trace/trace_event_writer.h"
#include "trace/utf8.h"

namespace plimsoll {
namespace {

using testing::HasSubstr;

template <typename Write>
std::string pickled(Write write) {
  std::ostringstream out;
  PickleWriter pickle(out);
  write(pickle);
  pickle.finish();
  return out.str();
}

std::string integer_opcodes(int64_t value) {
  const std::string pickle = pickled([&](PickleWriter& p) { p.integer(value); });
  return pickle.substr(2, pickle.size() - 3);  // without protocol and stop
}

using namespace std::string_literals;

// Expected bytes as pickletools disassembles them to the value.
TEST(PickleWriter, IntegersTakeTheShortestForm) {
  EXPECT_EQ(integer_opcodes(0), "K\0"s);
  EXPECT_EQ(integer_opcodes(255), "K\xff");
  EXPECT_EQ(integer_opcodes(256), "M\0\1"s);
  EXPECT_EQ(integer_opcodes(65536), "J\0\0\1\0"s);
  EXPECT_EQ(integer_opcodes(-1), "J\xff\xff\xff\xff");
  EXPECT_EQ(integer_opcodes(int64_t{1} << 31), "\x8a\5\0\0\0\x80\0"s);
  EXPECT_EQ(integer_opcodes(int64_t{0x7f} << 40), "\x8a\6\0\0\0\0\0\x7f"s);
  EXPECT_EQ(integer_opcodes(INT64_MIN), "\x8a\x8\0\0\0\0\0\0\0\x80"s);
}

TEST(PickleWriter, ContainersAndRepeatedStrings) {
  const std::string pickle = pickled([](PickleWriter& p) {
    p.begin_list();
    p.string("ab");
    p.string("ab");
    p.begin_dict();
    p.key("ab");
    p.boolean(true);
    p.end_dict();
    p.end_list();
  });
  EXPECT_EQ(pickle, "\x80\4](\x8c\2ab\x94h\0}(h\0\x88ue."s);
}

TEST(PickleWriter, LongListsAreAddedInBatches) {
  const std::string pickle = pickled([](PickleWriter& p) {
    p.begin_list();
    for (int i = 0; i < 1001; ++i) p.integer(7);
    p.end_list();
  });
  std::string items;
  for (int i = 0; i < 1000; ++i) items += "K\7";
  EXPECT_EQ(pickle, "\x80\4]("s + items + "e(K\7e."s);
}

TEST(Utf8, InvalidBytesBecomeReplacementCharacters) {
  EXPECT_EQ(to_valid_utf8("größe 层 😀"), "größe 层 😀");
  EXPECT_EQ(to_valid_utf8("a\xff z"), "a\xef\xbf\xbd z");
  EXPECT_EQ(to_valid_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd");                  // overlong
  EXPECT_EQ(to_valid_utf8("\xe5\xb1"), "\xef\xbf\xbd\xef\xbf\xbd");                  // cut off
}

TEST(Json, StringsAreEscaped) { EXPECT_EQ(to_json_string("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\""); }

AllocationTrace small_trace() {
  AllocationTrace trace;
  AllocationRecorder recorder(trace);
  recorder.set_stack(trace.stacks.add({{.name = "aten::mm", .filename = "layers.0.mlp", .line = 3}}));
  recorder.set_time(Nanoseconds{5000});
  recorder.record(AllocationAction::kSegmentAlloc, 0x7f0000000000, kMiB * 2, 0);
  recorder.record(AllocationAction::kAlloc, 0x7f0000000000, Bytes{1000}, 0);
  trace.segments.push_back({.address = 0x7f0000000000, .bytes = kMiB * 2, .stack = recorder.stack()});
  trace.segments[0].blocks = {{.address = 0x7f0000000000,
                               .bytes = Bytes{1024},
                               .requested = Bytes{1000},
                               .state = BlockState::kAllocated,
                               .stack = recorder.stack()},
                              {.address = 0x7f0000000400, .bytes = kMiB * 2 - Bytes{1024}}};
  return trace;
}

TEST(TorchSnapshotWriter, WritesTheKeysOfASnapshot) {
  std::ostringstream out;
  write_torch_snapshot(small_trace(), out);
  const std::string pickle = out.str();
  for (const char* key :
       {"segments", "device_traces", "allocator_settings", "external_annotations", "active_allocated",
        "inactive", "segment_alloc", "time_us", "aten::mm", "layers.0.mlp", "requested_size"}) {
    EXPECT_THAT(pickle, HasSubstr(key));
  }
  EXPECT_EQ(pickle.substr(0, 2), "\x80\4");
  EXPECT_EQ(pickle.back(), '.');
}

TEST(Timeline, NamesAreStoredOnce) {
  Timeline timeline;
  EXPECT_EQ(timeline.add_name("a"), timeline.add_name("a"));
  EXPECT_NE(timeline.add_name("a"), timeline.add_name("b"));
  EXPECT_EQ(timeline.names.size(), 2U);
}

TEST(TraceEventWriter, WritesSlicesAndCounters) {
  Timeline timeline;
  const TrackId stream = timeline.add_track("stream 0");
  timeline.slices.push_back({.name = timeline.add_name("aten::mm"),
                             .owner = timeline.add_name("layers.0"),
                             .track = stream,
                             .begin = Nanoseconds{1500},
                             .duration = Nanoseconds{20}});
  timeline.memory.push_back(
      {.time = Nanoseconds{1500}, .allocated = Bytes{1}, .active = Bytes{2}, .reserved = Bytes{3}});
  std::ostringstream out;
  TraceEventWriter writer(out);
  writer.add("rank 0", timeline);
  writer.finish();
  EXPECT_EQ(out.str(),
            R"({"displayTimeUnit":"ms","traceEvents":[
{"ph":"M","pid":0,"tid":0,"name":"process_name","args":{"name":"rank 0"}},
{"ph":"M","pid":0,"tid":1,"name":"thread_name","args":{"name":"stream 0"}},
{"ph":"M","pid":0,"tid":1,"name":"thread_sort_index","args":{"sort_index":0}},
{"ph":"X","pid":0,"tid":1,"ts":1.500,"dur":0.020,"name":"aten::mm","args":{"module":"layers.0"}},
{"ph":"C","pid":0,"ts":1.500,"name":"memory","args":{"allocated_bytes":1,"active_bytes":2,"reserved_bytes":3}}
]}
)");
  EXPECT_EQ(timeline.end(), Nanoseconds{1520});
}

}  // namespace
}  // namespace plimsoll
