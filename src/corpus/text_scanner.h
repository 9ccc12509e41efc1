// Goes through a file of documents piece by piece, from any place where a piece begins.
//
//   auto scanner = scan_json_lines(file, {}, "text");
//   TextPiece piece;
//   for (PLIMSOLL_TRY(more, scanner->next(piece)); more; ...) use(piece);
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/input_file.h"
#include "base/result.h"

namespace plimsoll {

// Where a piece begins.
struct TextPlace {
  uint64_t offset = 0;
  bool in_document = false;  // the document has had bytes before
};

struct TextPiece {
  std::string bytes;           // a document, or a part of it; may be empty
  bool ends_document = false;  // of a document that isn't empty
  TextPlace next;
};

class TextScanner {
 public:
  virtual ~TextScanner() = default;
  TextScanner(const TextScanner&) = delete;
  TextScanner& operator=(const TextScanner&) = delete;

  // False: the file has ended.
  virtual Result<bool> next(TextPiece& piece) = 0;

 protected:
  TextScanner() = default;
};

// A line is an object whose member `key` is the document; blank lines are passed over. Errors, with the line
// where the scan began at the file's begin, else with the byte: base/json_events.h; no such member, or no
// string; a line of more than kMostLineBytes.
inline constexpr uint64_t kMostLineBytes = uint64_t{64} << 20;
std::unique_ptr<TextScanner> scan_json_lines(InputFile file, const TextPlace& from, std::string key);

// What stands between separators is a document. REQUIRES a separator that isn't empty.
std::unique_ptr<TextScanner> scan_separated_text(InputFile file, const TextPlace& from,
                                                 std::string separator);

}  // namespace plimsoll
