#include "importers/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "importers/byte_source.h"
#include "importers/decoded_source.h"
#include "importers/kineto_trace/kineto_trace.h"
#include "importers/memory_stats/memory_stats.h"
#include "importers/memory_stats/memory_summary.h"
#include "importers/oom_text/memory_failures.h"
#include "importers/oom_text/oom_text.h"
#include "importers/torch_snapshot/torch_snapshot.h"

namespace plimsoll {
namespace {

struct Format {
  RecordingFormat format;
  bool (*sniff)(std::string_view first_bytes);
  bool is_short;  // read as a whole
  std::string_view title;
};
// The first that takes them. A log may hold anything, and so comes last.
constexpr std::array<Format, 6> kFormats = {{
    {RecordingFormat::kTorchSnapshot, sniff_torch_snapshot, false, "a memory snapshot"},
    {RecordingFormat::kKinetoTrace, sniff_kineto_trace, false, "a trace of the profiler"},
    {RecordingFormat::kMemoryStats, sniff_memory_stats, true, "the JSON of torch.cuda.memory_stats()"},
    {RecordingFormat::kOutOfMemoryText, sniff_oom_text, true, "the text of an out-of-memory error"},
    {RecordingFormat::kMemorySummary, sniff_memory_summary, true, "a table of torch.cuda.memory_summary()"},
    {RecordingFormat::kOutOfMemoryText, sniff_memory_failures, true, "a log of a lack of memory"},
}};

Error too_long(const std::string& name) {
  return {.position = {.file = name},
          .message = fmt::format("is a text of more than {} bytes", kLargestRecordedText),
          .expected = "a snapshot, a profiler's trace, or a shorter text",
          .hint = "take the lines around \"out of memory\" out of a long log"};
}

// The command that printed this JSON, such as "estimate"; empty: none of Plimsoll's.
std::string_view printed_by(std::string_view bytes) {
  constexpr std::string_view kSchema = "\"schema\": \"plimsoll.";
  constexpr size_t kFirstBytes = 64;
  const size_t at = bytes.substr(0, kFirstBytes).find(kSchema);
  if (!bytes.starts_with('{') || at == std::string_view::npos) return {};
  const std::string_view name = bytes.substr(at + kSchema.size());
  return name.substr(0, std::min(name.find('/'), name.find('"')));
}

const Format* format_of(std::string_view bytes) {
  if (!printed_by(bytes).empty()) return nullptr;
  for (const Format& format : kFormats)
    if (format.sniff(bytes)) return &format;
  return nullptr;
}

std::string identity_of(std::string_view bytes) {
  if (const Format* const format = format_of(bytes)) return std::string(format->title);
  const std::string_view command = printed_by(bytes);
  return command.empty() ? std::string() : fmt::format("JSON of Plimsoll's own (plimsoll.{})", command);
}

tl::unexpected<Error> unknown_format(const std::string& name, std::string_view bytes) {
  if (const std::string identity = identity_of(bytes); !identity.empty())
    return fail({.position = {.file = name},
                 .message = fmt::format("is {}, no recording of a run", identity),
                 .expected = "a snapshot, a profiler's trace, or a text that replay takes",
                 .hint =
                     "`plimsoll compare plan.json snapshot.pickle` sets what `plimsoll estimate ... --json` "
                     "printed beside a snapshot"});
  return fail(
      {.position = {.file = name},
       .message = "is no recording of a run's memory",
       .expected =
           "one of: a snapshot by torch.cuda.memory._dump_snapshot(), a Chrome trace by "
           "torch.profiler with profile_memory=True, torch.cuda.memory_stats() as JSON, a table of "
           "torch.cuda.memory_summary(), a text with PyTorch's \"CUDA out of memory. Tried to "
           "allocate ...\" or with another lack of memory: \"Killed\", oom_kill of Slurm, the "
           "kernel or a container, DataLoader workers, /dev/shm, std::bad_alloc, NCCL, cuBLAS, cuDNN, "
           "the driver, XLA"});
}

}  // namespace

Result<std::unique_ptr<ByteSource>> open_decoded(const std::string& path) {
  PLIMSOLL_TRY(source, ByteSource::open(path));
  if (sniff_torch_snapshot(source->look(kIdentified))) return source;
  return decoded(std::move(source));
}

Result<Recording> open_recording(const std::string& path) {
  const std::string name = input_name(path);
  PLIMSOLL_TRY(source, open_decoded(path));
  const std::string_view start = source->look(kIdentified);
  if (source->error()) return tl::unexpected(*source->error());
  if (start.empty())
    return fail(
        {.position = {.file = name}, .message = "is empty", .expected = "a recording of a run's memory"});
  const Format* format = format_of(start);
  if (format && !format->is_short)
    return Recording{.format = format->format, .name = name, .source = std::move(source)};
  if (!format && start.find('\0') != std::string_view::npos) return unknown_format(name, {});
  PLIMSOLL_TRY(text, source->take_rest(kLargestRecordedText, too_long(name)));
  format = format_of(text);
  if (!format) return unknown_format(name, text);
  if (!format->is_short)  // told by what stands late in it
    return Recording{.format = format->format, .name = name, .source = ByteSource::owning(std::move(text))};
  return Recording{.format = format->format, .name = name, .text = std::move(text)};
}

FileIdentity identify(std::string_view first_bytes) {
  const Format* const format = format_of(first_bytes);
  return {.format = format ? std::optional(format->format) : std::nullopt, .text = identity_of(first_bytes)};
}

}  // namespace plimsoll
