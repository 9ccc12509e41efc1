#include "report/memory_failure_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace plimsoll {
namespace {

constexpr std::string_view
    kGpu = "the GPU's, beside PyTorch's allocator",
    kLikelyGpu = "most likely the GPU's, beside PyTorch's allocator", kHostRam = "the host's RAM",
    kEstimateOfHost =
        "`plimsoll estimate` says what the job takes of the host for each rank: offloaded "
        "tensors, pinned copies, the checkpoint being written",
    kLessHost =
        "fewer DataLoader workers and a smaller prefetch_factor; data that is mapped or "
        "streamed rather than read whole; checkpoints loaded with mmap=True",
    kMoreLimit = "a larger limit, or fewer ranks on the node: each holds its own",
    kRoom =
        "leave them room: torch.cuda.set_per_process_memory_fraction(0.95), or "
        "torch.cuda.empty_cache() before the first use",
    kSnapshot =
        "record a snapshot (docs/snapshots.md) and give it to `plimsoll replay`: it shows "
        "what PyTorch held meanwhile";

struct Explanation {
  std::string_view name, memory, meaning;
  std::array<std::string_view, 3> help;  // empty ones at the end
};

// By MemoryFailureKind.
constexpr std::array<Explanation, 20> kExplanations = {{
    {"nccl",
     kGpu,
     "NCCL found no memory on the GPU for its own buffers, which it takes beside PyTorch's allocator",
     {kRoom, "`plimsoll estimate` counts communicators; NCCL_BUFFSIZE and fewer channels make them smaller",
      kSnapshot}},
    {"library",
     kGpu,
     "a library such as cuBLAS, cuDNN or cuFFT found no memory on the GPU for its handle or workspace",
     {kRoom, "create it early: a small matrix product right after the start", kSnapshot}},
    {"cublas-handle",
     kLikelyGpu,
     "cuBLAS couldn't make its handle, most likely for want of memory on the GPU; other causes: an earlier "
     "kernel failed (an index out of range in an embedding or a loss), or driver and libraries of CUDA don't "
     "match",
     {kRoom, "create it early: a small matrix product right after the start",
      "CUDA_LAUNCH_BLOCKING=1, or the same step on the CPU, shows a kernel that failed before"}},
    {"convolution",
     kLikelyGpu,
     "cuDNN found no way to run a convolution, most likely since no algorithm's workspace found memory on "
     "the "
     "GPU; other causes: a dtype or layout that it doesn't know, or a cuDNN that doesn't match PyTorch",
     {kRoom, "a smaller batch; torch.backends.cudnn.benchmark=False tries fewer and smaller workspaces",
      kSnapshot}},
    {"driver",
     kGpu,
     "the driver found no memory for something beside PyTorch's allocator: a context, kernels, a library, or "
     "page-locked memory of the host",
     {"look with nvidia-smi who holds the GPU when the process starts",
      "pinned memory: fewer workers or pin_memory=False, and the limit of `ulimit -l`", kSnapshot}},
    {"host",
     kHostRam,
     "an allocator of host memory was refused: the host's memory ran out, not the GPU's",
     {kEstimateOfHost, kLessHost,
      "look for a limit: `ulimit -v`, the container's, /proc/meminfo's CommitLimit"}},
    {"kernel-kill",
     kHostRam,
     "Linux ended the process because the whole machine ran out of RAM",
     {kEstimateOfHost, kLessHost, "`dmesg -T | grep -i -A20 oom` lists what every process held"}},
    {"cgroup-kill",
     "the host's RAM that the container or unit may use",
     "Linux ended the process because its cgroup (a container, a pod, a unit of systemd) reached its limit; "
     "page cache and /dev/shm count too",
     {"a larger limit: `docker run --memory`, resources.limits.memory, MemoryMax", kEstimateOfHost,
      kLessHost}},
    {"slurm-kill",
     "the host's RAM that the Slurm job may use",
     "Slurm's cgroup ended a process because the job reached the memory that it asked for",
     {"`#SBATCH --mem=0` takes all of the node, --mem-per-gpu a share of it; `sacct -o MaxRSS,ReqMem -j JOB` "
      "says "
      "what it took",
      kEstimateOfHost, kLessHost}},
    {"time-limit",
     "time, not memory",
     "Slurm ended the job at its time limit; a \"Killed\" after that is part of it and tells nothing of "
     "memory",
     {"a longer limit: `#SBATCH --time`, up to the partition's (`sinfo -o '%P %l'`)",
      "checkpoints that a next job resumes from; `#SBATCH --signal=B:USR1@300` warns in time", ""}},
    {"killed",
     "most likely the host's RAM",
     "SIGKILL ended the process, and the text doesn't say who sent it: mostly Linux for want of host memory, "
     "else a scheduler, a time limit or a person; the GPU's memory never ends a process so",
     {"ask who it was: `dmesg -T | grep -i oom`, `journalctl -k`, `sacct -j JOB -o State`, `kubectl describe "
      "pod`",
      kEstimateOfHost, kLessHost}},
    {"worker-killed",
     "most likely the host's RAM",
     "a DataLoader worker was ended by SIGKILL, mostly by Linux for want of host memory: each worker holds "
     "its "
     "own copy of what the dataset holds in Python objects",
     {kLessHost,
      "keep the dataset's index in arrays or tensors, not lists of objects, which workers come to copy",
      kMoreLimit}},
    {"shared-memory",
     "/dev/shm, RAM that processes share",
     "/dev/shm is full: DataLoader workers hand batches over in it, NCCL its buffers between processes of a "
     "node",
     {"a larger one: `docker run --shm-size=16g` or --ipc=host; in a pod an emptyDir of medium Memory at "
      "/dev/shm",
      "less in it: fewer workers, a smaller prefetch_factor",
      "torch.multiprocessing.set_sharing_strategy(\"file_system\") doesn't help: it uses /dev/shm too"}},
    {"kernel-shared-memory",
     "the GPU's on-chip shared memory, of one block",
     "a kernel (Triton's, mostly) wants more shared memory for a block than a multiprocessor has; no lack of "
     "device memory",
     {"smaller blocks or fewer stages (num_stages) of that kernel",
      "another implementation of the op: sdpa instead of a kernel that was tuned for a larger GPU", ""}},
    {"metal-buffer",
     "one Metal buffer",
     "one tensor is larger than the largest buffer that Metal makes, however much memory is free",
     {"cut that tensor: a smaller batch, a shorter sequence, attention or loss in chunks", "", ""}},
    {"xla",
     "the GPU's, of XLA's allocator",
     "XLA (JAX) ran out of memory; its allocator is none that Plimsoll models",
     {"JAX takes three quarters of the GPU at the start: XLA_PYTHON_CLIENT_MEM_FRACTION=.95 gives it more",
      "where others use the GPU too, or it fragments: XLA_PYTHON_CLIENT_PREALLOCATE=false takes memory as it "
      "is needed",
      "what held it: the buffer assignment that XLA dumps (XLA_FLAGS=--xla_dump_to=DIR), or "
      "jax.profiler.save_device_memory_profile()"}},
    {"tensorflow",
     "the GPU's, of TensorFlow's allocator",
     "TensorFlow's allocator (BFC) ran out of memory; it is none that Plimsoll models",
     {"a smaller batch, or mixed precision",
      "TF_GPU_ALLOCATOR=cuda_malloc_async where it fragments; tf.config.experimental.set_memory_growth where "
      "others use the GPU too",
      ""}},
    {"wrong-size",
     "none",
     "a size beyond anything real was asked for: a negative or overflown number, not a lack of memory",
     {"look at the shapes of the call in the traceback",
      "after a failed collective the received sizes are wrong", ""}},
    {"old-pytorch",
     "the GPU's",
     "an old PyTorch (of the time of THC) found no memory on the GPU; it says neither what was asked for nor "
     "what was held",
     {"look with nvidia-smi who holds the GPU when the process starts",
      "`plimsoll estimate` says what the job needs, and what would help",
      "a newer PyTorch says what was asked for and held, and records snapshots"}},
    {"cut",
     "the GPU's, of PyTorch's allocator",
     "PyTorch's out-of-memory error is cut before its figures",
     {"paste the whole message, from \"Tried to allocate\" to \"reserved by PyTorch but unallocated\"",
      "`plimsoll estimate` says what the job needs, and what would help", kSnapshot}},
}};

const Explanation& explanation_of(MemoryFailureKind kind) { return kExplanations[static_cast<size_t>(kind)]; }

std::string sizes_text(const MemoryFailure& failure) {
  std::string text;
  if (failure.asked) text += fmt::format("; {} was asked for", to_text(*failure.asked));
  if (failure.held) text += fmt::format("; the process held {}", to_text(*failure.held));
  return text;
}

}  // namespace

std::string_view name_of(MemoryFailureKind kind) { return explanation_of(kind).name; }
std::string_view memory_of(MemoryFailureKind kind) { return explanation_of(kind).memory; }
std::string_view meaning_of(MemoryFailureKind kind) { return explanation_of(kind).meaning; }
std::vector<std::string_view> help_of(MemoryFailureKind kind) {
  std::vector<std::string_view> all;
  for (const std::string_view help : explanation_of(kind).help)
    if (!help.empty()) all.push_back(help);
  return all;
}

std::string note_of(const MemoryFailure& failure) {
  return fmt::format("line {}: {}{}; {}", failure.line, meaning_of(failure.kind), sizes_text(failure),
                     fmt::join(help_of(failure.kind), "; "));
}

std::string memory_failure_page(const std::string& file, const std::vector<MemoryFailure>& failures,
                                const std::vector<std::string>& notes) {
  std::string text;
  for (const MemoryFailure& failure : failures) {
    if (!text.empty()) text += "\n";
    text += fmt::format("{}:{}: {}\n", file, failure.line, failure.text);
    if (failure.times == 2) text += "  and one more line like it\n";
    if (failure.times > 2)
      text += fmt::format("  and {} more lines like it\n", with_thousands(failure.times - 1));
    text += fmt::format("  what ran out: {}{}\n  {}\n\nWhat helps\n", memory_of(failure.kind),
                        sizes_text(failure), meaning_of(failure.kind));
    for (const std::string_view help : help_of(failure.kind)) text += fmt::format("  - {}\n", help);
  }
  if (!notes.empty()) text += "\nNotes\n";
  for (const std::string& note : notes) text += "  " + note + "\n";
  return text;
}

}  // namespace plimsoll
