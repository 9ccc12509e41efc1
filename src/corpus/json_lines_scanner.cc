#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json_events.h"
#include "corpus/text_scanner.h"

namespace plimsoll {
namespace {

// Lines of a file, through a buffer that grows to the longest of them.
class LineReader {
 public:
  LineReader(InputFile file, uint64_t offset) : file_(std::move(file)), read_to_(offset) {}

  const InputFile& file() const { return file_; }
  uint64_t offset() const { return read_to_ - (buffer_.size() - begin_); }  // of the next line

  // The next line without its end; nothing at the end of the file. Valid until the next call.
  Result<std::optional<std::string_view>> next() {
    size_t searched = 0;
    while (true) {
      const size_t end = buffer_.find('\n', begin_ + searched);
      if (end != std::string::npos) return take(end - begin_, 1);
      searched = buffer_.size() - begin_;
      if (read_to_ == file_.size()) break;
      if (searched > kMostLineBytes)
        return fail(
            {.position = {.file = file_.name(), .key = "", .line = {}, .column = {}, .byte = offset()},
             .message = fmt::format("begins a line of more than {} bytes", kMostLineBytes),
             .expected = "JSON lines, a document each"});
      PLIMSOLL_CHECK(refill());
    }
    if (searched == 0) return std::optional<std::string_view>();
    return take(searched, 0);
  }

 private:
  std::optional<std::string_view> take(size_t length, size_t end_length) {
    const std::string_view line = std::string_view(buffer_).substr(begin_, length);
    begin_ += length + end_length;
    return line;
  }
  Result<void> refill() {
    constexpr uint64_t kPiece = uint64_t{64} << 10;
    buffer_.erase(0, std::exchange(begin_, 0));
    const size_t before = buffer_.size();
    // A long line's pieces grow with it, so that it is moved a few times only.
    const uint64_t wanted = std::max<uint64_t>(kPiece, before);
    buffer_.resize(before + static_cast<size_t>(std::min(wanted, file_.size() - read_to_)));
    const auto room = std::as_writable_bytes(std::span(buffer_)).subspan(before);
    PLIMSOLL_CHECK(file_.read(read_to_, room));
    read_to_ += room.size();
    return {};
  }

  InputFile file_;
  std::string buffer_;
  size_t begin_ = 0;  // of the next line in the buffer
  uint64_t read_to_;  // the buffer's end in the file
};

// Takes one member of an object, a string, and passes over all others.
class MemberReader : public JsonHandler {
 public:
  explicit MemberReader(const std::string& key) : key_(key) {}

  std::optional<std::string> text;

  std::optional<JsonRefusal> begin(const JsonPath& path, JsonContainer container) override {
    if (path.empty() && container != JsonContainer::kObject) return no_object();
    return is_ours(path) ? no_string() : std::nullopt;
  }
  std::optional<JsonRefusal> scalar(const JsonPath& path, JsonScalar& value) override {
    if (path.empty()) return no_object();
    if (!is_ours(path)) return std::nullopt;
    auto* string = std::get_if<std::string>(&value);
    if (string == nullptr) return no_string();
    text = std::move(*string);
    return std::nullopt;
  }
  std::optional<JsonRefusal> end(const JsonPath&) override { return std::nullopt; }

 private:
  bool is_ours(const JsonPath& path) const {
    return path.size() == 1 && std::get<std::string>(path[0]) == key_;
  }
  std::optional<JsonRefusal> no_object() const {
    return JsonRefusal{"is no object", fmt::format("{{\"{}\": \"a document\"}} in each line", key_)};
  }
  static std::optional<JsonRefusal> no_string() { return JsonRefusal{"is no string", "a document's text"}; }

  const std::string& key_;
};

class JsonLinesScanner final : public TextScanner {
 public:
  JsonLinesScanner(InputFile file, const TextPlace& from, std::string key)
      : lines_(std::move(file), from.offset), key_(std::move(key)), knows_line_(from.offset == 0) {}

  Result<bool> next(TextPiece& piece) override {
    while (true) {
      const uint64_t offset = lines_.offset();
      PLIMSOLL_TRY(line, lines_.next());
      if (!line) return false;
      ++line_;
      if (line->find_first_not_of(" \t\r") == std::string_view::npos) continue;
      auto text = document_of(*line, offset);
      if (!text) return fail(placed(std::move(text).error()));
      piece = {.bytes = std::move(*text), .ends_document = false, .next = {.offset = lines_.offset()}};
      piece.ends_document = !piece.bytes.empty();
      return true;
    }
  }

 private:
  Result<std::string> document_of(std::string_view line, uint64_t offset) const {
    constexpr size_t kDeepest = 64;
    MemberReader reader(key_);
    const std::string& name = lines_.file().name();
    PLIMSOLL_CHECK(read_json(line, {.file = name, .first_byte = offset, .deepest = kDeepest}, reader));
    if (reader.text) return *std::move(reader.text);
    return fail({.position = {.file = name, .key = key_, .line = {}, .column = {}, .byte = offset},
                 .message = "is missing in this line",
                 .expected = "a document's text in each line",
                 .hint = "name the key that holds the text"});
  }
  Error placed(Error error) const {
    constexpr int64_t kMostLines = std::numeric_limits<int>::max();  // beyond them the byte says it
    if (knows_line_ && line_ <= kMostLines) error.position.line = static_cast<int>(line_);
    return error;
  }

  LineReader lines_;
  std::string key_;
  bool knows_line_;
  int64_t line_ = 0;
};

}  // namespace

std::unique_ptr<TextScanner> scan_json_lines(InputFile file, const TextPlace& from, std::string key) {
  return std::make_unique<JsonLinesScanner>(std::move(file), from, std::move(key));
}

}  // namespace plimsoll
