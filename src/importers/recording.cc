#include "importers/recording.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "importers/byte_source.h"
#include "importers/kineto_trace/kineto_trace.h"
#include "importers/memory_stats/memory_stats.h"
#include "importers/oom_text/oom_text.h"
#include "importers/torch_snapshot/torch_snapshot.h"

namespace plimsoll {
namespace {

struct Format {
  RecordingFormat format;
  bool (*sniff)(std::string_view first_bytes);
  bool is_short;  // read as a whole
};
// The first that takes them. A log may hold anything, and so comes last.
constexpr std::array<Format, 4> kFormats = {{
    {RecordingFormat::kTorchSnapshot, sniff_torch_snapshot, false},
    {RecordingFormat::kKinetoTrace, sniff_kineto_trace, false},
    {RecordingFormat::kMemoryStats, sniff_memory_stats, true},
    {RecordingFormat::kOutOfMemoryText, sniff_oom_text, true},
}};
constexpr size_t kSniffed = size_t{64} << 10;

Error too_long(const std::string& name) {
  return {.position = {.file = name},
          .message = fmt::format("is a text of more than {} bytes", kLargestRecordedText),
          .expected = "a snapshot, a profiler's trace, or a shorter text",
          .hint = "take the lines around \"out of memory\" out of a long log"};
}

const Format* format_of(std::string_view bytes) {
  for (const Format& format : kFormats)
    if (format.sniff(bytes)) return &format;
  return nullptr;
}

tl::unexpected<Error> unknown_format(const std::string& name) {
  return fail({.position = {.file = name},
               .message = "is no recording of a run's memory",
               .expected =
                   "one of: a snapshot by torch.cuda.memory._dump_snapshot(), a Chrome trace by "
                   "torch.profiler with profile_memory=True, torch.cuda.memory_stats() as JSON, a text with "
                   "PyTorch's \"CUDA out of memory. Tried to allocate ...\""});
}

Result<Recording> recording_of_text(std::string name, std::string text) {
  const Format* const format = format_of(text);
  if (!format) return unknown_format(name);
  return Recording{.format = format->format, .name = std::move(name), .text = std::move(text)};
}

}  // namespace

Result<Recording> open_recording(const std::string& path) {
  const std::string name = input_name(path);
  PLIMSOLL_TRY(source, ByteSource::open(path));
  const std::string_view start = source->look(kSniffed);
  const Format* const format = format_of(start);
  if (format && !format->is_short)
    return Recording{.format = format->format, .name = name, .source = std::move(source)};
  const bool is_binary = !format && start.find('\0') != std::string_view::npos;
  if (is_binary && !source->error()) return unknown_format(name);
  PLIMSOLL_TRY(text, source->take_rest(kLargestRecordedText, too_long(name)));
  return recording_of_text(name, std::move(text));
}

}  // namespace plimsoll
