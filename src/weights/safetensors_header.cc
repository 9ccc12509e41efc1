#include "weights/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/json_events.h"
#include "base/units.h"

namespace plimsoll {
namespace {

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kLfsPointer = "version ";  // how a pointer of Git LFS begins

const std::string& key_of(const JsonPath& path, size_t level) { return std::get<std::string>(path[level]); }

// Takes the header's values as they come; the rules on a value's place and kind are here, those among values
// in Layout below.
class HeaderReader : public JsonHandler {
 public:
  SafetensorsHeader header;

  std::optional<JsonRefusal> begin(const JsonPath& path, JsonContainer container) override {
    const bool is_object = container == JsonContainer::kObject;
    if (path.empty()) return is_object ? std::nullopt : wrong("is no object", kWhole);
    if (path.size() == 1) return begin_entry(key_of(path, 0), is_object);
    const bool is_metadata = key_of(path, 0) == kMetadata;
    if (path.size() > 2 || is_metadata || is_object)
      return wrong(is_object ? "is an object" : "is a list", is_metadata ? "a string" : kTensor);
    return begin_list(key_of(path, 1));
  }

  std::optional<JsonRefusal> scalar(const JsonPath& path, JsonScalar& value) override {
    if (path.empty()) return wrong("is no object", kWhole);
    if (path.size() == 1) return wrong("is no object", kTensor);
    if (key_of(path, 0) == kMetadata) return take_metadata(key_of(path, 1), value);
    const std::string& key = key_of(path, 1);
    if (path.size() == 2) return key == "dtype" ? take_type(value) : wrong("has no place here", kTensor);
    const auto* number = std::get_if<uint64_t>(&value);
    constexpr uint64_t kMost = uint64_t{1} << 62;
    if (number == nullptr || *number > kMost) return wrong("is no size", "an integer from 0 to 2^62");
    if (key == "shape") header.tensors.back().shape.push_back(static_cast<int64_t>(*number));
    if (key == "data_offsets") offsets_.push_back(*number);
    return std::nullopt;
  }

  std::optional<JsonRefusal> end(const JsonPath& path) override {
    if (path.size() != 1 || key_of(path, 0) == kMetadata) return std::nullopt;
    StoredTensor& tensor = header.tensors.back();
    if (tensor.type.bits == 0) return wrong("has no \"dtype\"", kTensor);
    if (!has_shape_) return wrong("has no \"shape\"", kTensor);
    if (offsets_.size() != 2)
      return wrong(fmt::format("has {} data offsets", offsets_.size()), "\"data_offsets\": [begin, end]");
    tensor.begin = offsets_[0];
    tensor.end = offsets_[1];
    return check_size(tensor);
  }

 private:
  static constexpr const char* kWhole = "an object of tensors by name";
  static constexpr const char* kTensor =
      R"({"dtype": "F32", "shape": [rows, columns], "data_offsets": [begin, end]})";

  static std::optional<JsonRefusal> wrong(std::string message, std::string expected) {
    return JsonRefusal{std::move(message), std::move(expected)};
  }

  std::optional<JsonRefusal> begin_entry(const std::string& name, bool is_object) {
    if (!is_object) return wrong("is a list", kTensor);
    if (name == kMetadata) return std::nullopt;
    header.tensors.push_back({.name = name});
    has_shape_ = false;
    offsets_.clear();
    return std::nullopt;
  }

  std::optional<JsonRefusal> begin_list(const std::string& key) {
    if (key != "shape" && key != "data_offsets") return wrong("has no place here", kTensor);
    if (key == "shape") has_shape_ = true;
    return std::nullopt;
  }

  std::optional<JsonRefusal> take_metadata(const std::string& key, JsonScalar& value) {
    auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) return wrong("is no string", "a string");
    header.metadata[key] = std::move(*text);
    return std::nullopt;
  }

  std::optional<JsonRefusal> take_type(const JsonScalar& value) {
    constexpr const char* kExpected = "a type of the format, such as F32, F16, BF16 or I64";
    const auto* name = std::get_if<std::string>(&value);
    const auto type = name != nullptr ? stored_type_from_name(*name) : std::nullopt;
    if (name == nullptr) return wrong("is no string", kExpected);
    if (!type) return wrong(fmt::format("\"{}\" is unknown", *name), kExpected);
    header.tensors.back().type = *type;
    return std::nullopt;
  }

  static std::optional<JsonRefusal> check_size(const StoredTensor& tensor) {
    if (tensor.end < tensor.begin) return wrong("ends before it begins", "\"data_offsets\": [begin, end]");
    const auto bytes = stored_bytes(tensor.type, tensor.shape);
    if (!bytes) return wrong("has a shape of no whole bytes, or of more than 2^63", "a smaller shape");
    if (*bytes == tensor.bytes()) return std::nullopt;
    return wrong(fmt::format("has {} bytes of data", tensor.bytes()),
                 fmt::format("{} bytes, as its shape of {} says", *bytes, tensor.type.name));
  }

  bool has_shape_ = false;
  std::vector<uint64_t> offsets_;
};

// Tensors follow each other from byte 0 of the data to its end.
Result<void> check_layout(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& file) {
  const auto refuse = [&](const std::string& key, std::string message, std::string expected,
                          std::string hint) {
    return fail({.position = {.file = file, .key = key},
                 .message = std::move(message),
                 .expected = std::move(expected),
                 .hint = std::move(hint)});
  };
  uint64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.end > data_bytes)
      return refuse(tensor.name,
                    fmt::format("ends at byte {} of the data, but the file holds {}", tensor.end, data_bytes),
                    "all of the data", "the file was cut short: fetch or write it again");
    if (tensor.begin != end)
      return refuse(tensor.name,
                    fmt::format("begins at byte {} of the data, but the tensor before it ends at {}",
                                tensor.begin, end),
                    tensor.begin < end ? "tensors that don't overlap" : "tensors without holes between them",
                    "");
    end = tensor.end;
  }
  if (end != data_bytes)
    return refuse("", fmt::format("holds {} bytes of data, but the last tensor ends at {}", data_bytes, end),
                  "no bytes behind the last tensor", "");
  return {};
}

}  // namespace

Result<uint64_t> safetensors_header_length(std::string_view first_bytes, uint64_t file_size,
                                           const std::string& file) {
  const auto refuse = [&](std::string message, std::string hint = "") {
    return fail({.position = {.file = file},
                 .message = std::move(message),
                 .expected = "a safetensors file: the length of a header, the header, data",
                 .hint = std::move(hint)});
  };
  if (first_bytes.size() < kHeaderLengthBytes)
    return refuse(fmt::format("has {} bytes", first_bytes.size()), "the file was cut short");
  if (first_bytes.starts_with(kLfsPointer))
    return refuse("is text, not tensors", "is it a pointer of Git LFS? Then run: git lfs pull");
  uint64_t length = 0;
  for (size_t i = kHeaderLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(first_bytes[i]);
  // As torch.save() writes them: a ZIP archive, before 1.6 a pickle (whose first byte is 0x80).
  const bool is_of_torch = first_bytes.starts_with("PK\3\4") || first_bytes[0] == '\x80';
  if (length > kMostHeaderBytes && is_of_torch)
    return refuse("is a ZIP archive or a pickle, as torch.save() writes them",
                  "save the model with save_pretrained(..., safe_serialization=True)");
  if (length > kMostHeaderBytes)
    return refuse(fmt::format("has a header of {} bytes, more than {}", length, kMostHeaderBytes));
  if (length > file_size - kHeaderLengthBytes)
    return refuse(fmt::format("has a header of {} bytes, but {} bytes in all", length, file_size),
                  "the file was cut short");
  return length;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                                   const std::string& file) {
  constexpr size_t kDeepest = 3;
  if (!json.starts_with('{'))
    return fail({.position = {.file = file, .key = "", .line = {}, .column = {}, .byte = kHeaderLengthBytes},
                 .message = "has a header that doesn't begin with {",
                 .expected = "a safetensors file: the length of a header, the header, data"});
  HeaderReader reader;
  PLIMSOLL_CHECK(
      read_json(json, {.file = file, .first_byte = kHeaderLengthBytes, .deepest = kDeepest}, reader));
  std::stable_sort(reader.header.tensors.begin(), reader.header.tensors.end(),
                   [](const StoredTensor& a, const StoredTensor& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  PLIMSOLL_CHECK(check_layout(reader.header, data_bytes, file));
  return std::move(reader.header);
}

}  // namespace plimsoll
