#include "importers/oom_text/oom_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

Bytes gib(double n) { return *parse_bytes(std::to_string(n) + " GiB"); }
Bytes mib(double n) { return *parse_bytes(std::to_string(n) + " MiB"); }

OutOfMemoryMessage only_message(const std::string& text) {
  const Result<std::vector<OutOfMemoryMessage>> messages = read_oom_text(text, "log");
  EXPECT_TRUE(messages) << messages.error().to_text();
  if (!messages || messages->size() != 1) return {};
  return messages->front();
}

const std::string kCurrent =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 MiB. GPU 3 has a total capacity of "
    "94.97 GiB of which 16.88 MiB is free. Process 560 has 7.95 GiB memory in use. Including non-PyTorch "
    "memory, "
    "this process has 11.93 GiB memory in use. 20.00 GiB allowed; Of the allocated memory 11.24 GiB is "
    "allocated "
    "by PyTorch, with 38.00 MiB allocated in private pools (e.g., CUDA Graphs), and 14.48 MiB is reserved by "
    "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

TEST(OomText, OfTwoOneAndLater) {
  const OutOfMemoryMessage m =
      only_message("Traceback (most recent call last):\n  x = model(y)\n" + kCurrent + "\n");
  EXPECT_EQ(m.kind, "CUDA");
  EXPECT_EQ(m.tried, mib(24));
  EXPECT_EQ(m.device, 3);
  EXPECT_EQ(m.capacity, gib(94.97));
  EXPECT_EQ(m.free, mib(16.88));
  EXPECT_EQ(m.processes, (std::vector<OutOfMemoryMessage::Process>{{560, gib(7.95)}}));
  EXPECT_EQ(m.in_use, gib(11.93));
  EXPECT_EQ(m.allowed, gib(20));
  EXPECT_EQ(m.allocated, gib(11.24));
  EXPECT_EQ(m.private_pools, mib(38));
  EXPECT_EQ(m.reserved_unallocated, mib(14.48));
  EXPECT_EQ(m.wording, OomWording::kFrom21);
  EXPECT_EQ(m.settings_variable, "PYTORCH_CUDA_ALLOC_CONF");
}

TEST(OomText, MisspeltInTwoOneZeroAndWithoutADeviceNumber) {
  const OutOfMemoryMessage m = only_message(
      "CUDA out of memory. Tried to allocate 512 bytes. GPU  has a total capacty of 44.34 GiB of which "
      "160.81 MiB is "
      "free. Of the allocated memory 43.36 GiB is allocated by PyTorch, and 396.27 MiB is reserved by "
      "PyTorch but "
      "unallocated.");
  EXPECT_EQ(m.tried, Bytes{512});
  EXPECT_FALSE(m.device);
  EXPECT_EQ(m.capacity, gib(44.34));
  EXPECT_EQ(m.free, mib(160.81));
  EXPECT_FALSE(m.in_use);
  EXPECT_EQ(m.reserved_unallocated, mib(396.27));
}

TEST(OomText, OfOneFiveToTwoZero) {
  const OutOfMemoryMessage m = only_message(
      "RuntimeError: HIP out of memory. Tried to allocate 376.00 MiB (GPU 0; 3.95 GiB total capacity; 1.72 "
      "GiB already "
      "allocated; 354.88 MiB free; 3.00 GiB allowed; 2.46 GiB reserved in total by PyTorch) If reserved "
      "memory is >> "
      "allocated memory try setting max_split_size_mb to avoid fragmentation.");
  EXPECT_EQ(m.kind, "HIP");
  EXPECT_EQ(m.device, 0);
  EXPECT_EQ(m.capacity, gib(3.95));
  EXPECT_EQ(m.allocated, gib(1.72));
  EXPECT_EQ(m.free, mib(354.88));
  EXPECT_EQ(m.allowed, gib(3));
  EXPECT_EQ(m.reserved_unallocated, gib(2.46) - gib(1.72));
  EXPECT_EQ(m.wording, OomWording::kBefore21);
}

TEST(OomText, BeforeOneFiveCachedExcludesAllocated) {
  const OutOfMemoryMessage m = only_message(
      "CUDA out of memory. Tried to allocate 1.10 GiB (GPU 1; 10.91 GiB total capacity; 8.50 GiB already "
      "allocated; "
      "47.44 MiB free; 1.60 GiB cached)");
  EXPECT_EQ(m.allocated, gib(8.5));
  EXPECT_EQ(m.reserved_unallocated, gib(1.6));
  EXPECT_EQ(m.wording, OomWording::kBefore15);
}

TEST(OomText, OfXpu) {
  const OutOfMemoryMessage m = only_message(
      "XPU out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 47.99 GiB of which 1.00 "
      "GiB is "
      "free. Of the allocated memory 40.00 GiB is allocated by PyTorch, and 2.00 GiB is reserved by PyTorch "
      "but "
      "unallocated. Please use `empty_cache` to release all unoccupied cached memory.");
  EXPECT_EQ(m.kind, "XPU");
  EXPECT_EQ(m.allocated, gib(40));
}

TEST(OomText, OfHipNamesItsOwnVariable) {
  const OutOfMemoryMessage m = only_message(
      "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 6.64 GiB. GPU 0 has a total capacity of "
      "19.92 GiB "
      "of which 6.22 GiB is free. Of the allocated memory 5.34 GiB is allocated by PyTorch, and 7.10 GiB is "
      "reserved "
      "by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
      "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid fragmentation.");
  EXPECT_EQ(m.kind, "HIP");
  EXPECT_EQ(m.reserved_unallocated, gib(7.1));
  EXPECT_EQ(m.settings_variable, "PYTORCH_HIP_ALLOC_CONF");
}

TEST(OomText, OfNpu) {
  const OutOfMemoryMessage m = only_message(
      "RuntimeError: NPU out of memory. Tried to allocate 2.13 GiB (NPU 3; 60.97 GiB total capacity; 58.81 "
      "GiB already "
      "allocated; 58.81 GiB current active; 581.60 MiB free; 59.20 GiB reserved in total by PyTorch) If "
      "reserved "
      "memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.");
  EXPECT_EQ(m.kind, "NPU");
  EXPECT_EQ(m.device, 3);
  EXPECT_EQ(m.free, mib(581.6));
  EXPECT_EQ(m.reserved_unallocated, gib(59.2) - gib(58.81));
}

// Of 2.4 and later, and of before, whose "GB" is 2^30 too.
TEST(OomText, OfMps) {
  const OutOfMemoryMessage m = only_message(
      "RuntimeError: MPS backend out of memory (MPS allocated: 7.80 GiB, other allocations: 6.94 GiB, max "
      "allowed: "
      "18.13 GiB). Tried to allocate 3.46 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to "
      "disable "
      "upper limit for memory allocations (may cause system failure).");
  EXPECT_EQ(m.wording, OomWording::kMps);
  EXPECT_EQ(m.kind, "MPS");
  EXPECT_EQ(m.tried, gib(3.46));
  EXPECT_EQ(m.allocated, gib(7.8));
  EXPECT_EQ(m.in_use, gib(7.8) + gib(6.94));
  EXPECT_EQ(m.allowed, gib(18.13));
  const OutOfMemoryMessage old = only_message(
      "MPS backend out of memory (MPS allocated: 17.68 GB, other allocations: 3.95 MB, max allowed: 18.13 "
      "GB). Tried "
      "to allocate 1024.00 MB on private pool.");
  EXPECT_EQ(old.allocated, gib(17.68));
  EXPECT_EQ(old.tried, kGiB);
}

TEST(OomText, OfCudaMallocAsync) {
  const std::string text =
      "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
      "Currently allocated     : 3.16 GiB\nRequested               : 12.00 GiB\nDevice limit            : "
      "23.99 GiB\n"
      "Free (according to CUDA): 1.25 GiB\nPyTorch limit (set by user-supplied memory fraction)\n"
      "                        : ";
  const OutOfMemoryMessage m = only_message(text + "17179869184.00 GiB\n");
  EXPECT_EQ(m.wording, OomWording::kAsync);
  EXPECT_EQ(m.kind, "CUDA");
  EXPECT_EQ(m.tried, gib(12));
  EXPECT_EQ(m.allocated, gib(3.16));
  EXPECT_EQ(m.capacity, gib(23.99));
  EXPECT_EQ(m.free, gib(1.25));
  EXPECT_FALSE(m.allowed);
  EXPECT_EQ(only_message(text + "10.00 GiB\n").allowed, gib(10));
}

TEST(OomText, WrappedAsTerminalsDo) {
  std::string wrapped;
  for (const char c : kCurrent) wrapped += c == ' ' && wrapped.size() % 3 == 0 ? "\n    " : std::string(1, c);
  EXPECT_EQ(only_message(wrapped), only_message(kCurrent));
}

TEST(OomText, EqualMessagesOfSeveralRanksAreCounted) {
  std::string other = kCurrent;
  other.replace(other.find("GPU 3"), 5, "GPU 4");
  const auto messages = read_oom_text(kCurrent + "\n[rank1]: " + kCurrent + "\n" + other, "log");
  ASSERT_TRUE(messages);
  ASSERT_EQ(messages->size(), 2U);
  EXPECT_EQ((*messages)[0].times, 2);
  EXPECT_EQ((*messages)[1].times, 1);
  EXPECT_EQ((*messages)[1].device, 4);
}

// NVML measures no process in WSL 2 or under WDDM: all bits of its figure are set.
TEST(OomText, AProcessThatTheDriverDoesNotMeasure) {
  const OutOfMemoryMessage m = only_message(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total capacity "
      "of 31.84 GiB of which 0 bytes is free. Process 17 has 17179869184.00 GiB memory in use. Including "
      "non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the allocated memory 28.93 "
      "GiB is allocated by PyTorch, and 32.88 MiB is reserved by PyTorch but unallocated.");
  EXPECT_EQ(m.capacity, gib(31.84));
  EXPECT_EQ(m.free, Bytes{});
  EXPECT_FALSE(m.in_use);
  EXPECT_TRUE(m.processes.empty());
  EXPECT_EQ(m.unmeasured, 2);
  EXPECT_EQ(m.allocated, gib(28.93));
}

// The difference of two counters without a sign.
TEST(OomText, MoreAllocatedThanReserved) {
  const OutOfMemoryMessage m = only_message(
      "CUDA out of memory. Tried to allocate 768.00 MiB. Of the allocated memory 28.93 GiB is allocated by "
      "PyTorch, and 17179869182.50 GiB is reserved by PyTorch but unallocated.");
  EXPECT_EQ(m.reserved_unallocated, Bytes{} - gib(1.5));
  const OutOfMemoryMessage old = only_message(
      "CUDA out of memory. Tried to allocate 1.10 GiB (GPU 1; 10.91 GiB total capacity; 8.50 GiB already "
      "allocated; 47.44 MiB free; 7.00 GiB reserved in total by PyTorch)");
  EXPECT_EQ(old.reserved, gib(7));
  EXPECT_EQ(old.reserved_unallocated, Bytes{});
}

TEST(OomText, OtherTextsAreRefused) {
  const auto none = read_oom_text("nothing to see", "log");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().to_text(), HasSubstr("log: holds no out-of-memory error"));
  const auto cut = read_oom_text("a\nb CUDA out of memory. Tried to allocate a lot", "log");
  ASSERT_TRUE(cut);
  EXPECT_TRUE(cut->empty());
  EXPECT_FALSE(sniff_oom_text("CUDA error: out of memory"));
  EXPECT_TRUE(sniff_oom_text(kCurrent));
}

TEST(OomText, AFigureThatCannotBeReadIsNamed) {
  for (const std::string figure :
       {"nan GiB", "inf MiB", "1e308 GiB", "-2.00 GiB", "1.2.3 GiB", "17179869184.00 GiB"})
    for (const std::string size : {"11.47 GiB", "79.15 GiB"}) {
      std::string text =
          "CUDA out of memory. Tried to allocate 11.47 GiB. GPU 3 has a total capacity of "
          "79.15 GiB of which 1.00 GiB is free.";
      text.replace(text.find(size), size.size(), figure);
      const auto messages = read_oom_text("a\nb " + text, "log");
      ASSERT_FALSE(messages) << text;
      EXPECT_THAT(
          messages.error().to_text(),
          HasSubstr("log:2:8: the out-of-memory error has a figure that can't be read: \"" + figure + "\""));
    }
  const auto before = read_oom_text(
      "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; -3.95 GiB total capacity; 1.72 GiB already "
      "allocated;",
      "log");
  ASSERT_FALSE(before);
  EXPECT_THAT(before.error().to_text(), HasSubstr("\"-3.95 GiB\""));
}

TEST(OomText, MessagesAreBounded) {
  std::string text;
  for (size_t i = 0; i <= kMostOomMessages; ++i)
    text += "CUDA out of memory. Tried to allocate " + std::to_string(i + 1) + " bytes.\n";
  const auto messages = read_oom_text(text, "log");
  ASSERT_FALSE(messages);
  EXPECT_THAT(messages.error().to_text(), HasSubstr("log:4097:6: too many different out-of-memory errors"));
}

TEST(OomText, ALongWordIsNoKind) {
  EXPECT_EQ(only_message(std::string(1000, 'X') + " out of memory. Tried to allocate 2.00 GiB.").kind, "");
}

TEST(OomText, CutAnywhereIsReadOrRefused) {
  for (size_t length = 0; length < kCurrent.size(); ++length) {
    const auto messages = read_oom_text(kCurrent.substr(0, length), "log");
    EXPECT_TRUE(messages || !messages.error().message.empty());
  }
}

}  // namespace
}  // namespace plimsoll
