#include "importers/oom_text/memory_failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = MemoryFailureKind;

MemoryFailure only_failure(std::string_view text) {
  const std::vector<MemoryFailure> all = find_memory_failures(text);
  EXPECT_THAT(all, SizeIs(1)) << text;
  return all.empty() ? MemoryFailure{} : all[0];
}

TEST(MemoryFailures, OfNcclIsCountedOnce) {
  const MemoryFailure f = only_failure(
      "step 3\nnode:1:2 [0] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n"
      "node:1:2 [0] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 6291456 bytes\n");
  EXPECT_EQ(f.kind, Kind::kNccl);
  EXPECT_EQ(f.line, 2);
  EXPECT_EQ(f.times, 2);
  EXPECT_EQ(f.asked, Bytes{6291456});
  EXPECT_EQ(f.text, "node:1:2 [0] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'");
  EXPECT_EQ(only_failure("NCCL WARN Failed to CUDA calloc async 608 bytes").asked, Bytes{608});
}

TEST(MemoryFailures, OfTheHost) {
  const MemoryFailure f = only_failure(
      "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate "
      "memory: you tried to allocate 549755813888 bytes. Error code 12 (Cannot allocate memory)");
  EXPECT_EQ(f.kind, Kind::kHost);
  EXPECT_EQ(f.asked, kGiB * 512);
  EXPECT_EQ(only_failure("DefaultCPUAllocator: not enough memory: you tried to allocate 1024 bytes.").asked,
            kKiB);
  EXPECT_EQ(only_failure("numpy: Unable to allocate 3.20 GiB for an array").asked, *parse_bytes("3.20 GiB"));
}

TEST(MemoryFailures, WhatTheKernelEndedSaysWhatItHeld) {
  const MemoryFailure f = only_failure(
      "[Mon] Memory cgroup out of memory: Killed process 71 (python) total-vm:9000000kB, anon-rss:4194304kB, "
      "file-rss:1024kB, shmem-rss:1048576kB, UID:0");
  EXPECT_EQ(f.kind, Kind::kCgroupKill);
  EXPECT_EQ(f.held, kGiB * 5 + kMiB);
}

struct Told {
  Kind kind;
  const char* line;
};

// As the programs print them.
TEST(MemoryFailures, EachIsToldByItsLine) {
  const std::vector<Told> all = {
      {Kind::kNccl,
       "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled cuda "
       "error, Last error: Cuda failure 'out of memory'"},
      {Kind::kNccl, "RuntimeError: NCCL Error 1: unhandled cuda error: out of memory"},
      {Kind::kLibrary,
       "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
      {Kind::kCublasHandle,
       "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"},
      {Kind::kLibrary, "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED"},
      {Kind::kLibrary, "RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED"},
      {Kind::kDriver, "RuntimeError: CUDA error: out of memory"},
      {Kind::kDriver, "RuntimeError: HIP error: out of memory"},
      {Kind::kHost, "terminate called after throwing an instance of 'std::bad_alloc'"},
      {Kind::kHost, "MemoryError"},
      {Kind::kHost, "OSError: [Errno 12] Cannot allocate memory"},
      {Kind::kHost, "OSError: [WinError 1455] The paging file is too small for this operation to complete."},
      {Kind::kKernelKill, "[12.3] Out of memory: Killed process 7 (python) total-vm:1kB"},
      {Kind::kKernelKill, "Out of memory: Kill process 7 (python) score 900 or sacrifice child"},
      {Kind::kKernelKill, "python invoked oom-killer: gfp_mask=0x14000c0, order=0, oom_score_adj=0"},
      {Kind::kCgroupKill, "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker,task=python"},
      {Kind::kCgroupKill, "    Reason:       OOMKilled"},
      {Kind::kCgroupKill, "train.service: A process of this unit has been killed by the OOM killer."},
      {Kind::kSlurmKill,
       "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some of the step tasks have "
       "been OOM Killed."},
      {Kind::kSlurmKill, "slurmstepd: error: Detected 2 oom-kill event(s) in StepId=17.batch."},
      {Kind::kSlurmKill, "slurmstepd: error: Exceeded job memory limit at some point."},
      {Kind::kSlurmKill, "srun: error: node17: task 3: Out Of Memory"},
      {Kind::kSlurmKill, "State: OUT_OF_MEMORY (exit code 0)"},
      {Kind::kKilled, "Killed"},
      {Kind::kKilled, "run.sh: line 3: 12345 Killed                  python train.py"},
      {Kind::kKilled, "[1]    12345 killed     python train.py"},
      {Kind::kKilled, "srun: error: node7: task 0: Killed"},
      {Kind::kKilled, "  exitcode  : -9 (pid: 4711)"},
      {Kind::kKilled, "  traceback : Signal 9 (SIGKILL) received by PID 4711"},
      {Kind::kKilled, "The command returned a non-zero code: exit code 137"},
      {Kind::kWorkerKilled, "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. "},
      {Kind::kSharedMemory,
       "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is "
       "possible that dataloader's workers are out of shared memory."},
      {Kind::kSharedMemory,
       "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
       "shared memory (shm)."},
      {Kind::kSharedMemory,
       "RuntimeError: unable to write to file </torch_17_18_19>: No space left on device (28)"},
      {Kind::kSharedMemory,
       "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x (size 9637888)"},
      {Kind::kKernelShared,
       "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, "
       "Hardware limit: 101376"},
      {Kind::kMetalBuffer, "RuntimeError: Invalid buffer size: 12.00 GB"},
      {Kind::kXla, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes."},
      {Kind::kTensorFlow,
       "ResourceExhaustedError: OOM when allocating tensor with shape[32,512] and type float on GPU:0 by "
       "allocator GPU_0_bfc"},
      {Kind::kConvolution, "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution"},
      {Kind::kConvolution, "RuntimeError: GET was unable to find an engine to execute this computation"},
      {Kind::kOldPyTorch,
       "RuntimeError: cuda runtime error (2) : out of memory at "
       "/opt/conda/aten/src/THC/generic/THCStorage.cu:58"},
      {Kind::kTimeLimit,
       "slurmstepd: error: *** JOB 17 ON node7 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***"},
      {Kind::kWrongSize, "CUDA out of memory. Tried to allocate more than 1EB memory."},
      {Kind::kCut, "torch.OutOfMemoryError: CUDA out of memory."},
      {Kind::kCut, "RuntimeError: XPU out of memory."},
      {Kind::kCut, "RuntimeError: MPS backend out of memory"},
  };
  for (const Told& told : all)
    EXPECT_EQ(only_failure(std::string("before\n") + told.line + "\r\nafter").kind, told.kind) << told.line;
}

TEST(MemoryFailures, WhatATimeLimitKilledIsNoLackOfMemory) {
  const std::string limit = "slurmstepd: error: *** STEP 17.0 ON n CANCELLED AT x DUE TO TIME LIMIT ***\n";
  EXPECT_EQ(only_failure(limit + "srun: error: n: task 0: Killed\nKilled\n").kind, Kind::kTimeLimit);
  EXPECT_THAT(find_memory_failures("Killed\n" + limit), SizeIs(2));
  EXPECT_THAT(find_memory_failures(limit + "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0."),
              SizeIs(2));
}

TEST(MemoryFailures, SizesWithTheirUnits) {
  EXPECT_EQ(only_failure("RuntimeError: Invalid buffer size: 12.00 GB").asked, kGiB * 12);
  EXPECT_EQ(
      only_failure("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.").asked,
      kGiB);
}

// Words that stand in logs for other reasons.
TEST(MemoryFailures, NoneInAnInnocentText) {
  for (const char* text : {"", "loss 2.3\nsaved\n", "Killed the old run", "12 jobs were killed by hand",
                           "run.sh: line 3: Killed it", "ModuleNotFoundError: MemoryErrorHandler",
                           "DataLoader worker (pid 3) is killed by signal: Segmentation fault",
                           "No space left on device: '/data/checkpoint.pt'", "NCCL version 2.21.5",
                           "unhandled cuda error", "CUBLAS_STATUS_NOT_INITIALIZED when calling cublasSgemm",
                           "exitcode  : 1 (pid: 9)", "State: COMPLETED"}) {
    EXPECT_THAT(find_memory_failures(text), IsEmpty()) << text;
    EXPECT_FALSE(sniff_memory_failures(text));
  }
}

TEST(MemoryFailures, ALongLineIsCut) {
  EXPECT_THAT(only_failure(std::string(5000, 'x') + "std::bad_alloc").text, SizeIs(kLongestFailureText));
}

}  // namespace
}  // namespace plimsoll
