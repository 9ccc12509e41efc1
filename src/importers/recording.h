// Which of the formats that record a real run's memory a file has, told from its first bytes.
//
//   PLIMSOLL_TRY(recording, open_recording("snapshot.pickle"));  // "-": standard input
//   if (recording.format == RecordingFormat::kTorchSnapshot) ...
//
// Errors: a file that can't be read or is none of them; a text beyond kLargestRecordedText.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "importers/byte_source.h"

namespace plimsoll {

inline constexpr size_t kLargestRecordedText = size_t{64} << 20;

enum class RecordingFormat : uint8_t {
  kTorchSnapshot,   // torch.cuda.memory._dump_snapshot()
  kKinetoTrace,     // the profiler's Chrome trace
  kMemoryStats,     // torch.cuda.memory_stats() as JSON
  kMemorySummary,   // a text with tables of torch.cuda.memory_summary()
  kOutOfMemoryText  // a log with out-of-memory errors, or other deaths for want of memory
};

struct Recording {
  RecordingFormat format;
  std::string name;                    // as messages show it
  std::optional<std::string> text;     // all of it, of short formats
  std::unique_ptr<ByteSource> source;  // of the others, at the first byte: a pipe gives its bytes only once
};

// Text in UTF-8, whatever it is in (importers/decoded_source.h); a snapshot as it is.
Result<std::unique_ptr<ByteSource>> open_decoded(const std::string& path);

// Errors of a file that is none of them say what it is, as far as that can be told.
Result<Recording> open_recording(const std::string& path);

// What a file is, from its first bytes, for those that take other files than these.
struct FileIdentity {
  std::optional<RecordingFormat> format;
  std::string text;  // "the JSON of torch.cuda.memory_stats()"; of none that is known empty
};
FileIdentity identify(std::string_view first_bytes);
inline constexpr size_t kIdentified = size_t{64} << 10;  // bytes that are enough for it

}  // namespace plimsoll
