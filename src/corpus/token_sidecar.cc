#include <fmt/format.h>

#include <limits>
#include <set>
#include <utility>

#include "base/json_events.h"
#include "corpus/token_files.h"

namespace plimsoll {
namespace {

constexpr std::string_view kFormat = "plimsoll.tokens/1";
constexpr const char* kExpected =
    R"({"format": "plimsoll.tokens/1", "dtype": "uint16", "vocabulary": 50257, "tokens": 1000})";

class SidecarReader : public JsonHandler {
 public:
  TokenSidecar sidecar;
  std::set<std::string> seen;

  std::optional<JsonRefusal> begin(const JsonPath& path, JsonContainer container) override {
    if (path.empty() && container == JsonContainer::kObject) return std::nullopt;
    return refusal("is no value of a sidecar", kExpected);
  }
  std::optional<JsonRefusal> end(const JsonPath&) override { return std::nullopt; }

  std::optional<JsonRefusal> scalar(const JsonPath& path, JsonScalar& value) override {
    if (path.empty()) return refusal("is no object", kExpected);
    const std::string& key = std::get<std::string>(path[0]);
    seen.insert(key);
    if (key == "format" || key == "dtype" || key == "tokenizer_sha256") return take_text(key, value);
    if (key == "vocabulary") return take_count(value, uint64_t{1} << 32, sidecar.vocabulary);
    if (key == "tokens") return take_count(value, kMost, sidecar.tokens);
    if (key == "cut_documents") return take_count(value, kMost, sidecar.cut_documents);
    if (key == "documents") return take_count(value, kMost, documents_);
    if (key != "end_of_document") return refusal("is no key of a sidecar", kExpected);
    if (std::holds_alternative<std::nullptr_t>(value)) return std::nullopt;
    return take_count(value, uint64_t{1} << 32, sidecar.end_of_document.emplace());
  }

 private:
  static constexpr uint64_t kMost = uint64_t{1} << 62;

  static std::optional<JsonRefusal> refusal(std::string message, std::string expected) {
    return JsonRefusal{std::move(message), std::move(expected)};
  }
  static std::optional<JsonRefusal> take_count(const JsonScalar& value, uint64_t most, int64_t& to) {
    const auto* number = std::get_if<uint64_t>(&value);
    if (number == nullptr || *number > most)
      return refusal("is no count", fmt::format("an integer from 0 to {}", most));
    to = static_cast<int64_t>(*number);
    return std::nullopt;
  }
  std::optional<JsonRefusal> take_text(const std::string& key, JsonScalar& value) {
    auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return refusal("is no string", kExpected);
    if (key == "format" && *text != kFormat)
      return refusal(fmt::format("is \"{}\"", *text), std::string(kFormat));
    if (key == "dtype" && *text != "uint16" && *text != "uint32")
      return refusal(fmt::format("is \"{}\"", *text), "uint16 or uint32");
    if (key == "dtype") sidecar.width = *text == "uint16" ? TokenWidth::kUInt16 : TokenWidth::kUInt32;
    if (key == "tokenizer_sha256") sidecar.tokenizer_sha256 = std::move(*text);
    return std::nullopt;
  }

  int64_t documents_ = 0;
};

}  // namespace

Result<TokenSidecar> parse_token_sidecar(std::string_view json, const std::string& file) {
  SidecarReader reader;
  PLIMSOLL_CHECK(read_json(json, {.file = file, .first_byte = 0, .deepest = 1}, reader));
  for (const char* key : {"format", "dtype", "vocabulary", "tokens"})
    if (!reader.seen.contains(key))
      return fail({.position = {.file = file, .key = key}, .message = "is missing", .expected = kExpected});
  return std::move(reader.sidecar);
}

}  // namespace plimsoll
