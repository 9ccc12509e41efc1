// Snapshots as the writer in C++ makes them. Source: torch/csrc/cuda/memory_snapshot.cpp (what is written)
// and torch/csrc/jit/serialization/pickler.cpp (how): protocol 2; every integer beyond 32 bits in LONG1 of 8
// bytes; strings by BINUNICODE, each once; dicts and lists with MARK in one batch of any length, empty ones
// too, and with BINPUT when they are whole, if something else holds them; pairs by TUPLE2. The opcodes were
// checked against what torch._C._pickle_save() of PyTorch 2.13 writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "importers/torch_snapshot/torch_snapshot.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CppPickle {
 public:
  CppPickle& dict() { return add("}("); }
  CppPickle& end_dict() { return add("u"); }
  CppPickle& list() { return add("]("); }
  CppPickle& end_list() { return add("e"); }
  CppPickle& put() {  // of what more than one holds
    number(next_memo_ < 256 ? 'q' : 'r', next_memo_, next_memo_ < 256 ? 1 : 4);
    ++next_memo_;
    return *this;
  }
  uint32_t last_memo() const { return next_memo_ - 1; }
  CppPickle& get(uint32_t memo) { return number(memo < 256 ? 'h' : 'j', memo, memo < 256 ? 1 : 4); }
  CppPickle& text(const std::string& s) {
    const auto [known, is_new] = strings_.try_emplace(s, next_memo_);
    if (!is_new) return get(known->second);
    number('X', s.size(), 4);
    return add(s).put();
  }
  CppPickle& integer(int64_t n) {
    if (n >= 0 && n < 256) return number('K', static_cast<uint64_t>(n), 1);
    if (n >= 0 && n < 65536) return number('M', static_cast<uint64_t>(n), 2);
    if (n == static_cast<int32_t>(n)) return number('J', static_cast<uint64_t>(n), 4);
    add("\x8a");
    return number('\x08', static_cast<uint64_t>(n), 8);
  }
  CppPickle& pair(int64_t a, int64_t b) { return integer(a).integer(b).add("\x86"); }
  CppPickle& boolean(bool b) { return add(b ? "\x88" : "\x89"); }
  CppPickle& item(const std::string& key, int64_t value) { return text(key).integer(value); }
  CppPickle& item(const std::string& key, const std::string& value) { return text(key).text(value); }
  std::string finish() { return "\x80\x02" + bytes_ + "."; }

 private:
  CppPickle& add(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  CppPickle& number(char opcode, uint64_t value, int size) {
    bytes_ += opcode;
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }

  std::string bytes_;
  std::map<std::string, uint32_t> strings_;
  uint32_t next_memo_ = 0;
};

constexpr int64_t kAddress = 0x7f1234000000;

// frames: so many, one after the other, each shared with other stacks.
uint32_t write_frames(CppPickle& p, int count) {
  p.list();
  for (int i = 0; i < count; ++i)
    p.dict().item("name", "f" + std::to_string(i)).item("filename", "a.cpp").item("line", i).end_dict().put();
  p.end_list().put();
  return p.last_memo();
}

void write_segment(CppPickle& p, int frames, uint32_t& stack) {
  p.dict().item("device", 1).item("address", kAddress).item("total_size", 2 << 20).item("stream", 0);
  p.item("segment_type", "small").text("segment_pool_id").pair(0, 3).text("is_expandable").boolean(false);
  p.text("blocks").list();
  p.dict().item("address", kAddress).item("size", 512).item("requested_size", 500);
  p.item("state", "active_pending_free").text("frames");
  stack = write_frames(p, frames);
  p.end_dict().put();
  p.dict().item("address", kAddress + 512).item("size", (2 << 20) - 512).item("requested_size", 0);
  p.item("state", "inactive").text("frames").list().end_list().put().end_dict().put();
  p.end_list().text("frames").get(stack).end_dict();
}

std::string snapshot(int frames, int events) {
  CppPickle p;
  uint32_t stack = 0;
  p.dict().text("segments").list();
  write_segment(p, frames, stack);
  p.end_list().text("device_traces").list().list().end_list().list();
  for (int i = 0; i < events; ++i) {
    p.dict().item("action", i % 2 == 0 ? "alloc" : "free_requested").item("addr", kAddress).item("size", 500);
    p.item("stream", -1).item("time_us", 1'700'000'000'000'000 + i).item("compile_context", "N/A");
    p.item("user_metadata", i == 3 ? "step 3" : "").text("pool_id").pair(0, 3);
    p.text("frames").get(stack).end_dict().put();
  }
  p.end_list().end_list().text("allocator_settings").dict();
  p.item("PYTORCH_CUDA_ALLOC_CONF", "").item("max_split_size", -1).text("roundup_power2_divisions");
  p.dict().end_dict().end_dict().end_dict();
  return p.finish();
}

TEST(CppSnapshot, Reads) {
  const Result<TorchSnapshot> read = read_torch_snapshot_bytes(snapshot(2, 4), "cpp");
  ASSERT_TRUE(read) << read.error().to_text();
  ASSERT_EQ(read->devices.size(), 1U);
  const AllocationTrace& trace = read->devices[0];
  EXPECT_EQ(trace.device, 1);
  ASSERT_EQ(trace.segments.size(), 1U);
  EXPECT_EQ(trace.pools[trace.segments[0].pool], (PoolId{.owner = 0, .id = 3}));
  ASSERT_EQ(trace.segments[0].blocks.size(), 2U);
  EXPECT_EQ(trace.segments[0].blocks[0].state, BlockState::kPendingFree);
  EXPECT_EQ(trace.segments[0].blocks[0].requested, Bytes{500});
  ASSERT_EQ(trace.events.size(), 4U);
  const AllocationEvent& last = trace.events[3];
  EXPECT_EQ(last.action, AllocationAction::kFreeRequested);
  EXPECT_EQ(last.address, static_cast<uint64_t>(kAddress));
  EXPECT_EQ(last.stream, ~uint64_t{0});
  EXPECT_EQ(last.time->value, 1'700'000'000'000'003'000);
  EXPECT_EQ(trace.pools[last.pool], (PoolId{.owner = 0, .id = 3}));
  ASSERT_TRUE(last.stack);
  EXPECT_EQ(last.stack, trace.events[0].stack);
  const std::span<const FrameId> frames = trace.stacks.frames_of(*last.stack);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(trace.stacks.frame(frames[1]), (StackFrame{.name = "f1", .filename = "a.cpp", .line = 1}));
  EXPECT_THAT(trace.metadata, ElementsAre(EventMetadata{.event = 3, .text = "step 3"}));
  EXPECT_FALSE(trace.settings.max_split_size);
}

TEST(CppSnapshot, ManyItemsComeInOneBatch) {
  const Result<TorchSnapshot> read = read_torch_snapshot_bytes(snapshot(1500, 2500), "cpp");
  ASSERT_TRUE(read) << read.error().to_text();
  const AllocationTrace& trace = read->devices[0];
  ASSERT_EQ(trace.events.size(), 2500U);
  EXPECT_EQ(trace.events[2499].time->value - trace.events[0].time->value, 2499 * 1000);
  ASSERT_TRUE(trace.events[2499].stack);
  EXPECT_EQ(trace.stacks.frames_of(*trace.events[2499].stack).size(), 1500U);
}

// Entries and keys of PyTorch 2.14: annotate, internal_metadata, host_segments and host_traces (whose layout
// is told by the description of pytorch#182407 alone, so both a list and a list of lists are read).
TEST(CppSnapshot, WhatTheNewestWriterAdds) {
  CppPickle p;
  const auto event = [&](const std::string& action, int64_t address, int64_t size, const std::string& text) {
    p.dict().item("action", action).item("addr", address).item("size", size).item("stream", 0);
    p.item("time_us", 7).item("compile_context", "1/0").item("user_metadata", text);
    p.item("internal_metadata", "mallocWithAddress").text("pool_id").pair(0, 0).end_dict().put();
  };
  uint32_t stack = 0;
  p.dict().text("segments").list();
  write_segment(p, 1, stack);
  p.end_list().text("device_traces").list().list().end_list().list();
  event("alloc", kAddress, 500, "");
  event("annotate", kAddress, 500, "saved for backward");
  p.end_list().end_list().text("allocator_settings").dict().item("max_split_size", -1);
  p.text("graph_capture_record_stream_reuse").boolean(true).item("max_round_threshold", 0).end_dict();
  p.text("host_segments").list();
  p.dict().item("address", 64).item("total_size", 4096).item("allocated_size", 4096).end_dict().put();
  p.end_list().text("host_traces").list().list();
  event("alloc", 64, 4096, "");
  event("free_requested", 64, 4096, "");
  p.end_list().end_list().end_dict();
  const Result<TorchSnapshot> read = read_torch_snapshot_bytes(p.finish(), "cpp");
  ASSERT_TRUE(read) << read.error().to_text();
  ASSERT_EQ(read->devices.size(), 1U);
  const AllocationTrace& trace = read->devices[0];
  ASSERT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.events[1].action, AllocationAction::kUserDefined);
  EXPECT_EQ(trace.events[1].address, static_cast<uint64_t>(kAddress));
  EXPECT_THAT(trace.metadata, ElementsAre(EventMetadata{.event = 1, .text = "saved for backward"}));
  EXPECT_THAT(read->imperfections,
              ElementsAre(TraceImperfection{"events of pinned host memory, which aren't replayed", 2},
                          TraceImperfection{"segments of pinned host memory, which aren't counted", 1}));
}

TEST(CppSnapshot, AnnotationsAmongTheEventsOfTwoFour) {
  CppPickle p;
  uint32_t stack = 0;
  p.dict().text("segments").list();
  write_segment(p, 1, stack);
  p.end_list().text("device_traces").list().list().end_list().list();
  for (const std::string stage : {"START", "END"}) {
    p.dict().item("action", "user_defined").item("addr", 0).item("size", 0).item("stream", 0);
    p.item("time_us", 7).text("frames").list();
    p.dict().item("name", stage).item("filename", "ProfilerStep#0").item("line", 0).end_dict().put();
    p.end_list().put().end_dict().put();
  }
  p.end_list().end_list().end_dict();
  const Result<TorchSnapshot> read = read_torch_snapshot_bytes(p.finish(), "cpp");
  ASSERT_TRUE(read) << read.error().to_text();
  EXPECT_THAT(
      read->devices[0].annotations,
      ElementsAre(TraceAnnotation{.time = Nanoseconds{7000}, .name = "ProfilerStep#0"},
                  TraceAnnotation{.time = Nanoseconds{7000}, .name = "ProfilerStep#0", .is_end = true}));
}

TEST(CppSnapshot, TruncatedAnywhereIsAnError) {
  const std::string whole = snapshot(2, 4);
  for (size_t length = 0; length < whole.size(); ++length) {
    const Result<TorchSnapshot> read = read_torch_snapshot_bytes(whole.substr(0, length), "cpp");
    ASSERT_FALSE(read) << length;
    EXPECT_THAT(read.error().to_text(), HasSubstr("ends early")) << length;
  }
}

}  // namespace
}  // namespace plimsoll
