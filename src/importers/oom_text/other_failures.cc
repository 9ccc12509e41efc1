#include "importers/oom_text/other_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace plimsoll {
namespace {

struct Sign {
  std::string_view words;
  FailureKind kind;
  std::string_view size_behind = {};  // a number of bytes, or a size with its unit, follows these words
};
// The first that a line has decides.
constexpr std::array<Sign, 25> kSigns = {{
    {"Failed to CUDA calloc async ", FailureKind::kNccl, "Failed to CUDA calloc async "},
    {"Failed to CUDA calloc ", FailureKind::kNccl, "Failed to CUDA calloc "},
    {"Failed to CUDA malloc ", FailureKind::kNccl, "Failed to CUDA malloc "},
    {"Cuda failure 'out of memory'", FailureKind::kNccl},
    {"Cuda failure 2 'out of memory'", FailureKind::kNccl},
    {"_STATUS_ALLOC_FAILED", FailureKind::kLibrary},
    {"CUDA error: out of memory", FailureKind::kDriver},
    {"CUDA driver error: out of memory", FailureKind::kDriver},
    {"CUDA_ERROR_OUT_OF_MEMORY", FailureKind::kDriver},
    {"cudaErrorMemoryAllocation", FailureKind::kDriver},
    {"HIP error: out of memory", FailureKind::kDriver},
    {"hipErrorOutOfMemory", FailureKind::kDriver},
    {"can't allocate memory: you tried to allocate ", FailureKind::kHost, "you tried to allocate "},
    {"not enough memory: you tried to allocate ", FailureKind::kHost, "you tried to allocate "},
    {"Unable to allocate ", FailureKind::kHost, "Unable to allocate "},
    {"std::bad_alloc", FailureKind::kHost},
    {"Out of memory: Killed process", FailureKind::kKernelKill},
    {"oom-kill", FailureKind::kKernelKill},
    {"Invalid buffer size: ", FailureKind::kMetalBuffer, "Invalid buffer size: "},
    {"Out of memory allocating ", FailureKind::kXla, "Out of memory allocating "},
    {"RESOURCE_EXHAUSTED: Out of memory", FailureKind::kXla, "allocate "},
    {"Tried to allocate more than 1EB memory", FailureKind::kWrongSize},
    {"OutOfMemoryError", FailureKind::kCut},
    {"CUDA out of memory", FailureKind::kCut},
    {"HIP out of memory", FailureKind::kCut},
}};

// "6291456 bytes", "12.00 GB" (of Metal: 2^30).
std::optional<Bytes> size_in(std::string_view line, std::string_view words) {
  const size_t at = words.empty() ? std::string_view::npos : line.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(at + words.size());
  const size_t gap = rest.find(' ');
  if (gap == std::string_view::npos) return std::nullopt;
  size_t end = gap + 1;
  while (end < rest.size() &&
         ((rest[end] >= 'A' && rest[end] <= 'Z') || (rest[end] >= 'a' && rest[end] <= 'z')))
    ++end;
  std::string size(rest.substr(0, end));
  if (size.ends_with("MB") || size.ends_with("GB")) size.insert(size.size() - 1, "i");
  const std::optional<Bytes> bytes = parse_bytes(size);
  return bytes && bytes->value >= 0 ? bytes : std::nullopt;
}

const Sign* sign_of(std::string_view line) {
  const auto* const sign = std::ranges::find_if(
      kSigns, [&](const Sign& s) { return line.find(s.words) != std::string_view::npos; });
  return sign == kSigns.end() ? nullptr : sign;
}

std::string_view what_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNccl:
      return "NCCL found no memory on the GPU for its own buffers, which it takes beside PyTorch's allocator";
    case FailureKind::kLibrary:
      return "a library such as cuBLAS or cuDNN found no memory on the GPU for its handle or workspace";
    case FailureKind::kDriver:
      return "the driver found no memory for something beside PyTorch's allocator: a context, kernels, a "
             "library";
    case FailureKind::kHost:
      return "the host's memory ran out, not the GPU's";
    case FailureKind::kKernelKill:
      return "Linux ended the process for want of host memory, not the GPU's";
    case FailureKind::kMetalBuffer:
      return "one tensor is larger than the largest buffer that Metal makes, however much memory is free";
    case FailureKind::kXla:
      return "XLA (JAX, TensorFlow) ran out of memory; its allocator is none that Plimsoll models";
    case FailureKind::kCut:
      return "PyTorch's out-of-memory error is cut before its figures";
    case FailureKind::kWrongSize:
      return "a size beyond anything real was asked for: a negative or overflown number, not a lack of "
             "memory";
  }
  return "";
}

}  // namespace

std::vector<OtherFailure> find_other_failures(std::string_view text) {
  std::vector<OtherFailure> all;
  int number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const Sign* const sign = sign_of(line);
    if (!sign) continue;
    const std::optional<Bytes> asked = size_in(line, sign->size_behind);
    const auto known = std::ranges::find(all, sign->kind, &OtherFailure::kind);
    if (known == all.end()) {
      all.push_back({.kind = sign->kind, .line = number, .asked = asked});
    } else {
      ++known->times;
      if (!known->asked) known->asked = asked;
    }
  }
  return all;
}

std::string text_of(const OtherFailure& failure) {
  std::string text(what_of(failure.kind));
  if (failure.asked) text += fmt::format(" ({} was asked for)", to_text(*failure.asked));
  return text;
}

std::string_view hint_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNccl:
    case FailureKind::kLibrary:
      return "leave them room: torch.cuda.set_per_process_memory_fraction(0.95), or torch.cuda.empty_cache() "
             "before "
             "the first use; `plimsoll estimate` counts communicators, a snapshot shows what PyTorch held";
    case FailureKind::kDriver:
      return "look with nvidia-smi who holds the GPU when the process starts; if it is this job, record a "
             "snapshot "
             "(docs/snapshots.md) and give that to `plimsoll replay`";
    case FailureKind::kHost:
    case FailureKind::kKernelKill:
      return "`plimsoll estimate` says what the job takes of the host; a container's limit and pinned memory "
             "count too";
    case FailureKind::kMetalBuffer:
      return "cut that tensor: a smaller batch, a shorter sequence, attention or loss in chunks";
    case FailureKind::kXla:
      return "take the buffer assignment that XLA dumps (--xla_dump_to), or the profiler of JAX";
    case FailureKind::kCut:
      return "paste the whole message, from \"Tried to allocate\" to \"reserved by PyTorch but unallocated\"";
    case FailureKind::kWrongSize:
      return "look at the shapes of the call in the traceback; after a failed collective the received sizes "
             "are wrong";
  }
  return "";
}

Error error_of(const OtherFailure& failure, const std::string& file) {
  return {
      .position = {.file = file, .line = failure.line},
      .message = text_of(failure),
      .expected =
          "a text that accounts for the memory, such as \"CUDA out of memory. Tried to allocate ... GPU 0 "
          "has a total capacity of ...\"; this one holds nothing to analyse",
      .hint = std::string(hint_of(failure.kind))};
}

}  // namespace plimsoll
