#include "importers/oom_text/memory_failures.h"

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

using Kind = MemoryFailureKind;

struct Sign {
  std::string_view words;
  Kind kind;
  std::string_view size_behind = {};  // a number of bytes, or a size with its unit, follows these words
  std::string_view also = {};         // stands in the line too
};
// The first that a line has decides: those that say more stand first.
constexpr Sign kSigns[] = {
    {"Failed to CUDA calloc async ", Kind::kNccl, "Failed to CUDA calloc async "},
    {"Failed to CUDA calloc ", Kind::kNccl, "Failed to CUDA calloc "},
    {"Failed to CUDA malloc ", Kind::kNccl, "Failed to CUDA malloc "},
    {"Cuda failure 'out of memory'", Kind::kNccl},
    {"Cuda failure 2 'out of memory'", Kind::kNccl},
    {"NCCL", Kind::kNccl, {}, "out of memory"},
    {"unhandled cuda error", Kind::kNccl, {}, "out of memory"},
    {"creating shared memory segment", Kind::kSharedMemory},  // of NCCL too
    {"/dev/shm", Kind::kSharedMemory, {}, "No space left on device"},
    {"insufficient shared memory (shm)", Kind::kSharedMemory},
    {"unable to allocate shared memory", Kind::kSharedMemory},
    {"unable to resize file </torch_", Kind::kSharedMemory},
    {"unable to write to file </torch_", Kind::kSharedMemory},
    {"DataLoader worker", Kind::kSharedMemory, {}, "killed by signal: Bus error"},
    {"DataLoader worker", Kind::kWorkerKilled, {}, "killed by signal: Killed"},
    {"out of resource: shared memory", Kind::kKernelShared},
    {"_STATUS_ALLOC_FAILED", Kind::kLibrary},
    {"CUFFT_ALLOC_FAILED", Kind::kLibrary},
    {"CUBLAS_STATUS_NOT_INITIALIZED", Kind::kCublasHandle, {}, "cublasCreate"},
    {"Unable to find a valid cuDNN algorithm", Kind::kConvolution},
    {"unable to find an engine to execute this computation", Kind::kConvolution},
    {"cuda runtime error (2) : out of memory", Kind::kOldPyTorch},
    {"rocblas_status_memory_error", Kind::kLibrary},
    {"miopenStatusAllocFailed", Kind::kLibrary},
    {"CUDA error: out of memory", Kind::kDriver},
    {"CUDA driver error: out of memory", Kind::kDriver},
    {"CUDA_ERROR_OUT_OF_MEMORY", Kind::kDriver},
    {"cudaErrorMemoryAllocation", Kind::kDriver},
    {"HIP error: out of memory", Kind::kDriver},
    {"hipErrorOutOfMemory", Kind::kDriver},
    {"UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", Kind::kDriver},
    {"can't allocate memory: you tried to allocate ", Kind::kHost, "you tried to allocate "},
    {"not enough memory: you tried to allocate ", Kind::kHost, "you tried to allocate "},
    {"Unable to allocate ", Kind::kHost, "Unable to allocate "},
    {"std::bad_alloc", Kind::kHost},
    {"Cannot allocate memory", Kind::kHost},
    {"paging file is too small", Kind::kHost},
    {"oom_kill event", Kind::kSlurmKill},
    {"oom-kill event", Kind::kSlurmKill},
    {"cgroup out-of-memory handler", Kind::kSlurmKill},
    {"Exceeded job memory limit", Kind::kSlurmKill},
    {"exceeded memory limit", Kind::kSlurmKill, {}, "slurmstepd"},
    {": Out Of Memory", Kind::kSlurmKill, {}, "srun: error"},
    {"OUT_OF_MEMORY", Kind::kSlurmKill, {}, "State"},
    {"DUE TO TIME LIMIT", Kind::kTimeLimit, {}, "CANCELLED"},
    {"Memory cgroup out of memory", Kind::kCgroupKill},
    {"CONSTRAINT_MEMCG", Kind::kCgroupKill},
    {"OOMKilled", Kind::kCgroupKill},
    {"killed by the OOM killer", Kind::kCgroupKill},
    {"systemd-oomd", Kind::kCgroupKill, {}, "illed"},
    {"Out of memory: Kill", Kind::kKernelKill},
    {"oom-kill", Kind::kKernelKill},
    {"oom_reaper: reaped process", Kind::kKernelKill},
    {"Invalid buffer size: ", Kind::kMetalBuffer, "Invalid buffer size: "},
    {"Out of memory allocating ", Kind::kXla, "Out of memory allocating "},
    {"RESOURCE_EXHAUSTED: Out of memory", Kind::kXla, "allocate "},
    {"OOM when allocating tensor", Kind::kTensorFlow},
    {"Tried to allocate more than 1EB memory", Kind::kWrongSize},
    {"OutOfMemoryError", Kind::kCut},
    {"CUDA out of memory", Kind::kCut},
    {"HIP out of memory", Kind::kCut},
    {"XPU out of memory", Kind::kCut},
    {"NPU out of memory", Kind::kCut},
    {"MPS backend out of memory", Kind::kCut},
    {"exitcode", Kind::kKilled, {}, ": -9"},
    {"SIGKILL", Kind::kKilled},
    {"exit code 137", Kind::kKilled},
    {"exit status 137", Kind::kKilled},
    {"Exit Code: 137", Kind::kKilled},
};

bool has(std::string_view line, std::string_view words) { return line.find(words) != std::string_view::npos; }

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = line.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kSpace) - first + 1);
}

// What a shell, srun or make prints of a process that SIGKILL ended: "Killed", "Killed: 9",
// "run.sh: line 3: 123 Killed   python train.py", "[1]  123 killed  python train.py", "srun: ...: task 0:
// Killed".
bool is_of_shell(std::string_view line) {
  if (line == "Killed" || line.starts_with("Killed: 9") || line.ends_with(": Killed")) return true;
  for (const std::string_view word : {" Killed ", " killed "}) {
    const size_t at = line.find(word);
    if (at == std::string_view::npos) continue;
    size_t begin = at;  // of the process's number
    while (begin > 0 && line[begin - 1] == ' ') --begin;
    if (begin == 0 || !is_digit(line[begin - 1])) continue;
    if (line.starts_with('[') || has(line.substr(0, at), ": line ")) return true;
  }
  return false;
}

// Python's own, which other names end with.
bool is_memory_error(std::string_view line) {
  return line == "MemoryError" || line.starts_with("MemoryError:");
}

// "6291456 bytes", "12.00 GB" (of Metal: 2^30).
std::optional<Bytes> size_in(std::string_view line, std::string_view words) {
  const size_t at = words.empty() ? std::string_view::npos : line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + words.size());
  const size_t gap = rest.find(' ');
  if (gap == std::string_view::npos) return std::nullopt;
  size_t end = gap + 1;
  while (end < rest.size() && is_letter(rest[end])) ++end;
  std::string size(rest.substr(0, end));
  if (size.ends_with("MB") || size.ends_with("GB")) size.insert(size.size() - 1, "i");
  const std::optional<Bytes> bytes = parse_bytes(size);
  return bytes && bytes->value >= 0 ? bytes : std::nullopt;
}

// Linux: "total-vm:9kB, anon-rss:6kB, file-rss:1kB, shmem-rss:2kB" of the process that it ended; kB are 1024.
std::optional<Bytes> held_in(std::string_view line) {
  Bytes sum;
  bool is_said = false;
  for (const std::string_view words : {"anon-rss:", "file-rss:", "shmem-rss:"}) {
    const size_t at = line.find(words);
    if (at == std::string_view::npos) continue;
    std::string_view number = line.substr(at + words.size());
    number = number.substr(0, number.find("kB"));
    const std::optional<Bytes> bytes = parse_bytes(std::string(number) + "KiB");
    if (!bytes || bytes->value < 0) continue;
    sum += *bytes;
    is_said = true;
  }
  return is_said ? std::optional(sum) : std::nullopt;
}

std::optional<MemoryFailure> failure_in(std::string_view whole_line) {
  const std::string_view line = trimmed(whole_line);
  MemoryFailure failure{.text = std::string(line.substr(0, kLongestFailureText)), .held = held_in(line)};
  const auto* const sign = std::ranges::find_if(
      kSigns, [&](const Sign& s) { return has(line, s.words) && (s.also.empty() || has(line, s.also)); });
  if (sign != std::end(kSigns)) {
    failure.kind = sign->kind;
    failure.asked = size_in(line, sign->size_behind);
  } else if (is_memory_error(line)) {
    failure.kind = Kind::kHost;
  } else if (is_of_shell(line)) {
    failure.kind = Kind::kKilled;
  } else {
    return std::nullopt;
  }
  return failure;
}

void add(std::vector<MemoryFailure>& all, MemoryFailure failure) {
  const auto known = std::ranges::find(all, failure.kind, &MemoryFailure::kind);
  if (known == all.end()) return all.push_back(std::move(failure));
  ++known->times;
  if (!known->asked) known->asked = failure.asked;
  if (!known->held) known->held = failure.held;
}

}  // namespace

std::vector<MemoryFailure> find_memory_failures(std::string_view text) {
  std::vector<MemoryFailure> all;
  int number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::optional<MemoryFailure> failure = failure_in(text.substr(begin, end - begin));
    begin = end + 1;
    if (!failure) continue;
    // SIGKILL follows where SIGTERM wasn't heeded.
    const bool is_late = std::ranges::find(all, Kind::kTimeLimit, &MemoryFailure::kind) != all.end();
    if (is_late && failure->kind == Kind::kKilled) continue;
    failure->line = number;
    add(all, *std::move(failure));
  }
  return all;
}

bool sniff_memory_failures(std::string_view text) { return !find_memory_failures(text).empty(); }

}  // namespace plimsoll
