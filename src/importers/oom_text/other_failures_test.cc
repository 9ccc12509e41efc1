#include "importers/oom_text/other_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

OtherFailure only_failure(std::string_view text) {
  const std::vector<OtherFailure> all = find_other_failures(text);
  EXPECT_THAT(all, SizeIs(1)) << text;
  return all.empty() ? OtherFailure{} : all[0];
}

TEST(OtherFailures, OfNcclIsCountedOnce) {
  const OtherFailure f = only_failure(
      "step 3\nnode:1:2 [0] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n"
      "node:1:2 [0] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes\n");
  EXPECT_EQ(f.kind, FailureKind::kNccl);
  EXPECT_EQ(f.line, 2);
  EXPECT_EQ(f.times, 2);
  EXPECT_EQ(f.asked, Bytes{6291456});
  EXPECT_EQ(only_failure("NCCL WARN Failed to CUDA calloc async 608 bytes").asked, Bytes{608});
}

TEST(OtherFailures, OfTheHost) {
  const OtherFailure f = only_failure(
      "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate "
      "memory: you tried "
      "to allocate 549755813888 bytes. Error code 12 (Cannot allocate memory)");
  EXPECT_EQ(f.kind, FailureKind::kHost);
  EXPECT_EQ(f.asked, kGiB * 512);
  EXPECT_THAT(text_of(f), HasSubstr("the host's memory ran out, not the GPU's (512.00 GiB was asked for)"));
  EXPECT_EQ(only_failure("DefaultCPUAllocator: not enough memory: you tried to allocate 1024 bytes.").asked,
            kKiB);
}

TEST(OtherFailures, OfOthers) {
  EXPECT_EQ(only_failure("RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be").kind,
            FailureKind::kDriver);
  EXPECT_EQ(
      only_failure("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")
          .kind,
      FailureKind::kLibrary);
  EXPECT_EQ(only_failure("[1] Out of memory: Killed process 7 (python)").kind, FailureKind::kKernelKill);
  const OtherFailure metal = only_failure("RuntimeError: Invalid buffer size: 12.00 GB");
  EXPECT_EQ(metal.kind, FailureKind::kMetalBuffer);
  EXPECT_EQ(metal.asked, kGiB * 12);
  EXPECT_EQ(only_failure("CUDA out of memory. Tried to allocate more than 1EB memory.").kind,
            FailureKind::kWrongSize);
  EXPECT_EQ(
      only_failure("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.").asked,
      kGiB);
}

TEST(OtherFailures, OfPyTorchWithoutItsFigures) {
  const OtherFailure cut = only_failure("torch.OutOfMemoryError: CUDA out of memory.");
  EXPECT_EQ(cut.kind, FailureKind::kCut);
  EXPECT_THAT(hint_of(cut.kind), HasSubstr("paste the whole message"));
  // Where the figures follow it is no failure of this list.
  EXPECT_EQ(only_failure("numpy: Unable to allocate 3.20 GiB for an array").asked, *parse_bytes("3.20 GiB"));
}

TEST(OtherFailures, AnErrorSaysWhereAndWhatNext) {
  const std::string text = error_of(only_failure("a\nCUDA error: out of memory"), "log").to_text();
  EXPECT_THAT(text, HasSubstr("log:2: the driver found no memory"));
  EXPECT_THAT(text, HasSubstr("nothing to analyse"));
  EXPECT_THAT(text, HasSubstr("hint: look with nvidia-smi"));
}

TEST(OtherFailures, NoneInAnInnocentText) {
  EXPECT_THAT(find_other_failures("loss 2.3\nsaved\n"), IsEmpty());
  EXPECT_THAT(find_other_failures(""), IsEmpty());
}

}  // namespace
}  // namespace plimsoll
