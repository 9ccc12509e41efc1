#include "importers/torch_snapshot/torch_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "trace/torch_snapshot_writer.h"

namespace plimsoll {
namespace {

using std::string_literals::operator""s;
using ::testing::HasSubstr;

// One segment of 20 MiB with a live block, a waiting one and free memory.
AllocationTrace small_trace() {
  AllocationTrace trace;
  const StackId stack = trace.stacks.add({{.name = "forward", .filename = "model.py", .line = 54},
                                          {.name = "<module>", .filename = "train.py", .line = 9}});
  const uint64_t at = 0x7f0000000000;
  AllocationRecorder recorder(trace);
  recorder.set_stack(stack);
  recorder.set_time(Nanoseconds{1'700'000'000'000'000'000});
  recorder.record(AllocationAction::kSegmentAlloc, at, kMiB * 20, 0);
  recorder.record(AllocationAction::kAlloc, at, Bytes{(4 << 20) - 100}, 0);
  recorder.record(AllocationAction::kAlloc, at + (4U << 20U), kMiB * 4, 7);
  recorder.set_stack(std::nullopt);
  recorder.record(AllocationAction::kFreeRequested, at + (4U << 20U), kMiB * 4, 7);
  recorder.record(AllocationAction::kOutOfMemory, 12345, kGiB, 0);
  TraceSegment segment{.address = at, .bytes = kMiB * 20, .is_large = true, .stack = stack};
  segment.blocks = {{.address = at,
                     .bytes = kMiB * 4,
                     .requested = Bytes{(4 << 20) - 100},
                     .state = BlockState::kAllocated,
                     .stack = stack},
                    {.address = at + (4U << 20U),
                     .bytes = kMiB * 4,
                     .requested = kMiB * 4,
                     .state = BlockState::kPendingFree},
                    {.address = at + (8U << 20U), .bytes = kMiB * 12}};
  trace.segments.push_back(std::move(segment));
  trace.pools = {{}, {.owner = 0, .id = 2}};
  trace.segments.back().pool = 1;
  for (AllocationEvent& event : trace.events) event.pool = 1;
  trace.annotations = {{.time = Nanoseconds{1'700'000'000'000'001'000}, .name = "forward"},
                       {.time = Nanoseconds{1'700'000'000'000'002'000}, .name = "forward", .is_end = true}};
  trace.metadata = {{.event = 1, .text = "step 3"}};
  trace.settings.text = "max_split_size_mb:512";
  trace.settings.max_split_size = kMiB * 512;
  return trace;
}

std::string written(const AllocationTrace& trace) {
  std::ostringstream out;
  write_torch_snapshot(trace, out);
  return out.str();
}

void expect_equal(const AllocationTrace& a, const AllocationTrace& b) {
  EXPECT_EQ(a.device, b.device);
  EXPECT_EQ(a.events, b.events);
  EXPECT_EQ(a.segments, b.segments);
  EXPECT_EQ(a.settings, b.settings);
  EXPECT_EQ(a.stacks, b.stacks);
  EXPECT_EQ(a.pools, b.pools);
  EXPECT_EQ(a.annotations, b.annotations);
  EXPECT_EQ(a.metadata, b.metadata);
}

TEST(TorchSnapshot, WhatIsWrittenReadsBackEqual) {
  const AllocationTrace trace = small_trace();
  const Result<TorchSnapshot> snapshot = read_torch_snapshot_bytes(written(trace), "test");
  ASSERT_TRUE(snapshot) << snapshot.error().to_text();
  ASSERT_EQ(snapshot->devices.size(), 1U);
  EXPECT_TRUE(snapshot->imperfections.empty());
  expect_equal(snapshot->devices[0], trace);
}

TEST(TorchSnapshot, EveryDeviceIsWritten) {
  std::vector<AllocationTrace> traces = {small_trace(), small_trace()};
  traces[0].device = 1;
  traces[1].device = 4;
  traces[1].events.pop_back();
  traces[1].annotations.push_back({.time = Nanoseconds{2000}, .name = "step"});
  std::ostringstream out;
  write_torch_snapshot(traces, out);
  const Result<TorchSnapshot> snapshot = read_torch_snapshot_bytes(out.str(), "test");
  ASSERT_TRUE(snapshot) << snapshot.error().to_text();
  ASSERT_EQ(snapshot->devices.size(), 2U);
  expect_equal(snapshot->devices[0], traces[0]);
  expect_equal(snapshot->devices[1], traces[1]);
  EXPECT_EQ(snapshot->devices[0].annotations, traces[0].annotations);
  EXPECT_EQ(snapshot->devices[1].annotations, traces[1].annotations);
}

// Not those of all: a file of many devices would take as many times its stacks.
TEST(TorchSnapshot, ADeviceKeepsTheStacksThatItUses) {
  std::vector<AllocationTrace> traces;
  for (int device = 0; device < 3; ++device) {
    traces.push_back(small_trace());
    traces.back().device = device;
    const StackId own =
        traces.back().stacks.add({{.name = "of " + std::to_string(device), .filename = "model.py", .line = 1},
                                  {.name = "<module>", .filename = "train.py", .line = 9}});
    traces.back().segments[0].blocks[0].stack = own;
    traces.back().events[2].stack = own;
  }
  std::ostringstream out;
  write_torch_snapshot(traces, out);
  const auto snapshot = read_torch_snapshot_bytes(out.str(), "many");
  ASSERT_TRUE(snapshot) << snapshot.error().to_text();
  ASSERT_EQ(snapshot->devices.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const AllocationTrace& trace = snapshot->devices[i];
    EXPECT_EQ(trace.stacks.size(), 2U);
    EXPECT_EQ(trace.stacks.num_frames(), 3U);
    EXPECT_EQ(trace.stacks.frame(trace.stacks.frames_of(*trace.events[2].stack)[0]).name,
              "of " + std::to_string(i));
    expect_equal(trace, traces[i]);
  }
}

TEST(TorchSnapshot, TruncatedAnywhereIsAnError) {
  const std::string whole = written(small_trace());
  for (size_t length = 0; length < whole.size(); ++length) {
    const Result<TorchSnapshot> snapshot = read_torch_snapshot_bytes(whole.substr(0, length), "test");
    ASSERT_FALSE(snapshot) << length;
    EXPECT_THAT(snapshot.error().to_text(), HasSubstr("ends early")) << length;
  }
}

TEST(TorchSnapshot, AnyChangedByteIsReadOrRefused) {
  const std::string whole = written(small_trace());
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int change : {1, 0x20, 0x80, 0xff}) {
      std::string other = whole;
      other[at] = static_cast<char>(other[at] ^ change);
      const Result<TorchSnapshot> snapshot = read_torch_snapshot_bytes(other, "test");
      EXPECT_TRUE(snapshot || !snapshot.error().message.empty());
    }
}

TEST(TorchSnapshot, GzipIsTold) {
  const std::string whole = written(small_trace());
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "plimsoll_snapshot_test.gz";
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, whole.data(), static_cast<unsigned>(whole.size())), static_cast<int>(whole.size()));
  gzclose(file);
  const Result<TorchSnapshot> snapshot = read_torch_snapshot(path);
  ASSERT_TRUE(snapshot) << snapshot.error().to_text();
  expect_equal(snapshot->devices[0], small_trace());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 12);
  const Result<TorchSnapshot> cut = read_torch_snapshot(path);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().to_text(), HasSubstr("the gzip stream ends early"));
  std::filesystem::remove(path);
}

// {"segments": [{...}], "device_traces": []} by hand, in the layout before PyTorch 2.1: blocks without
// addresses, requests and stacks in `history`.
TEST(TorchSnapshot, TheLayoutBeforeTwoOne) {
  const auto key = [](const std::string& name) {
    return "X" + std::string(1, static_cast<char>(name.size())) + "\0\0\0"s + name;
  };
  const auto block = [&](const std::string& size, const std::string& state, const std::string& history) {
    return "}(" + key("size") + size + key("state") + key(state) + key("history") + history + "u";
  };
  const std::string past =
      "](}(" + key("addr") + "K\x00"s + key("real_size") + "M\x00\x01"s + key("frames") + "]ue";
  const std::string pickle = "\x80\x02}(" + key("segments") + "](}(" + key("device") + "K\x00"s +
                             key("address") + "J\x00\x00\x10\x00"s + key("total_size") +
                             "J\x00\x08\x00\x00"s + key("stream") + "K\x00"s + key("segment_type") +
                             key("small") + key("blocks") + "](" +
                             block("M\x00\x02"s, "active_allocated", past) +
                             block("M\x00\x06"s, "inactive", "]") + "eue" + key("device_traces") + "](]eu.";
  const Result<TorchSnapshot> snapshot = read_torch_snapshot_bytes(pickle, "old");
  ASSERT_TRUE(snapshot) << snapshot.error().to_text();
  const std::vector<TraceBlock>& blocks = snapshot->devices.at(0).segments.at(0).blocks;
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].requested, Bytes{256});
  EXPECT_EQ(blocks[1].address, 0x100000U + 512);
}

std::string key(const std::string& name) {
  return "X" + std::string(1, static_cast<char>(name.size())) + "\0\0\0"s + name;
}
std::string whole_number(uint64_t number) {  // LONG1
  std::string bytes = "\x8a\x09"s;
  for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(number >> (8 * byte));
  return bytes + '\0';
}
std::string event(const std::string& action, uint64_t address, uint64_t size) {
  return "}(" + key("action") + key(action) + key("addr") + whole_number(address) + key("size") +
         whole_number(size) + "u";
}
std::string error_of_traces(const std::string& lists) {
  const std::string pickle =
      "\x80\x02}(" + key("segments") + "]" + key("device_traces") + "](" + lists + "eu.";
  const Result<TorchSnapshot> snapshot = read_torch_snapshot_bytes(pickle, "test");
  return snapshot ? "no error" : snapshot.error().to_text();
}

TEST(TorchSnapshot, AListOfEventsIsOfOneDevice) {
  const std::string list = "](" + event("alloc", 4096, 512) + "eq\x07"s, same = "h\x07";
  EXPECT_EQ(error_of_traces(list + "](" + event("alloc", 4096, 512) + "e"), "no error");
  EXPECT_THAT(error_of_traces(list + same),
              HasSubstr("the trace of device 1 has entries that are used twice: device 0 has them too"));
  EXPECT_THAT(error_of_traces(list + "]" + same), HasSubstr("the trace of device 2 has entries"));
}

TEST(TorchSnapshot, DevicesAreBounded) {
  const std::string list = "](" + event("alloc", 4096, 512) + "e";
  EXPECT_EQ(error_of_traces(std::string(127, ']') + list), "no error");
  EXPECT_THAT(error_of_traces(std::string(128, ']') + list), HasSubstr("a device of number 128"));
}

TEST(TorchSnapshot, RangesEndBelowTheLastAddress) {
  constexpr uint64_t kLastPage = ~uint64_t{0} - 4095;
  EXPECT_EQ(error_of_traces("](" + event("segment_map", kLastPage, 4095) + "e"), "no error");
  EXPECT_THAT(error_of_traces("](" + event("segment_map", kLastPage, 8192) + "e"),
              HasSubstr("a segment_map of 8192 bytes at 0xfffffffffffff000 ends beyond the last address"));
  EXPECT_EQ(error_of_traces("](" + event("oom", ~uint64_t{0}, 8192) + "e"), "no error")
      << "its address is a number of bytes";
  const std::string segment = "}(" + key("address") + whole_number(kLastPage) + key("total_size") +
                              whole_number(8192) + key("blocks") + "](}(" + key("size") + whole_number(8192) +
                              key("state") + key("inactive") + "ueu";
  const Result<TorchSnapshot> snapshot =
      read_torch_snapshot_bytes("\x80\x02}(" + key("segments") + "](" + segment + "eu.", "test");
  ASSERT_FALSE(snapshot);
  EXPECT_THAT(snapshot.error().to_text(),
              HasSubstr("a segment of 8192 bytes at 0xfffffffffffff000 ends beyond the last address"));
}

TEST(TorchSnapshot, SizesThatNoSumCanHoldAreRefused) {
  const auto huge = event("alloc", 0, kMaxQuantity - 1);
  EXPECT_EQ(error_of_traces("](" + huge + "e"), "no error");
  EXPECT_THAT(error_of_traces("](" + huge + event("alloc", 4096, 512) + "e"),
              HasSubstr("with the alloc of 512 bytes at 0x1000 the sizes of the snapshot add up to more"));
}

TEST(TorchSnapshot, OtherPicklesAreRefused) {
  const Result<TorchSnapshot> list = read_torch_snapshot_bytes("\x80\x02K\x01."s, "test");
  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().to_text(), HasSubstr("is no memory snapshot"));
  const Result<TorchSnapshot> missing = read_torch_snapshot("/no/such/file.pickle");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().to_text(), HasSubstr("/no/such/file.pickle: can't be opened"));
}

// ---- the public snapshots ----

std::vector<std::vector<std::string>> expected_rows() {
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/../shared/inputs/snapshots/EXPECTED.csv");
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    rows.push_back(std::move(cells));
  }
  return rows;
}

TEST(TorchSnapshot, PublicSnapshotsHaveTheExpectedFigures) {
  const auto rows = expected_rows();
  if (rows.empty()) GTEST_SKIP() << "no ../shared/inputs/snapshots";
  for (size_t r = 1; r < rows.size(); ++r) {
    const Result<TorchSnapshot> snapshot =
        read_torch_snapshot(PLIMSOLL_SOURCE_DIR "/../shared/inputs/snapshots/" + rows[r][0]);
    ASSERT_TRUE(snapshot) << snapshot.error().to_text();
    ASSERT_EQ(snapshot->devices.size(), 1U);
    const AllocationTrace& trace = snapshot->devices[0];
    Bytes reserved, allocated, active;
    for (const TraceSegment& segment : trace.segments) {
      reserved += segment.bytes;
      for (const TraceBlock& block : segment.blocks) {
        if (block.state == BlockState::kAllocated) allocated += block.bytes;
        if (block.state != BlockState::kFree) active += block.bytes;
      }
    }
    const std::vector<std::string> seen = {std::to_string(trace.segments.size()),
                                           std::to_string(reserved.value), std::to_string(allocated.value),
                                           std::to_string(active.value), std::to_string(trace.events.size())};
    EXPECT_EQ(seen, std::vector<std::string>(rows[r].begin() + 1, rows[r].begin() + 6)) << rows[r][0];
  }
}

}  // namespace
}  // namespace plimsoll
