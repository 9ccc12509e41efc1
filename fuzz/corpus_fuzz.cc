// Bytes as JSON lines, as text with separators and as a sidecar of tokens. A scan from any place where a
// piece begins gives the rest of what a scan from the beginning gives; what is refused says why.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/text_scanner.h"
#include "corpus/token_files.h"

namespace {

using namespace plimsoll;

void require(bool holds) {
  if (!holds) std::abort();
}

const std::string& path_of_input() {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("corpus_fuzz_" + std::to_string(getpid()))).string();
  return path;
}

using Open = std::function<std::unique_ptr<TextScanner>(InputFile, const TextPlace&)>;

// All text from a place on, documents ended by a byte of value 255; the places of the pieces, if asked.
std::string scan(const Open& open, const TextPlace& from, std::vector<TextPlace>* places) {
  auto file = InputFile::open(path_of_input(), "text");
  require(file.has_value());
  const auto scanner = open(std::move(*file), from);
  std::string text;
  TextPiece piece;
  while (true) {
    const Result<bool> has_more = scanner->next(piece);
    if (!has_more) require(!has_more.error().message.empty());
    if (!has_more || !*has_more) return text;
    text += piece.bytes + (piece.ends_document ? "\xff" : "");
    if (places != nullptr) places->push_back(piece.next);
  }
}

void check(const Open& open) {
  std::vector<TextPlace> places;
  const std::string whole = scan(open, {}, &places);
  for (size_t i = 0; i < places.size(); i += 1 + places.size() / 8)
    require(whole.ends_with(scan(open, places[i], nullptr)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::ofstream(path_of_input(), std::ios::binary) << bytes;
  check([](InputFile file, const TextPlace& from) { return scan_json_lines(std::move(file), from, "t"); });
  check(
      [](InputFile file, const TextPlace& from) { return scan_separated_text(std::move(file), from, "aa"); });
  const auto sidecar = parse_token_sidecar(bytes, "fuzz");
  require(sidecar ? sidecar->vocabulary >= 0 : !sidecar.error().message.empty());
  std::filesystem::remove(path_of_input());
  return 0;
}
