#include "weights/weights_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_events.h"
#include "base/read_file.h"

namespace plimsoll {
namespace {

constexpr const char* kExpected = R"({"metadata": {"total_size": bytes}, "weight_map": {tensor: shard}})";

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
}

class IndexReader : public JsonHandler {
 public:
  WeightsIndex index;
  bool has_map = false;

  std::optional<JsonRefusal> begin(const JsonPath& path, JsonContainer container) override {
    const bool is_object = container == JsonContainer::kObject;
    if (path.empty()) return is_object ? std::nullopt : refusal("is a list", kExpected);
    const std::string& top = std::get<std::string>(path[0]);
    if (top == "metadata" && path.size() > 1) return std::nullopt;
    if (!is_object || path.size() > 1)
      return refusal(is_object ? "is an object" : "is a list",
                     path.size() > 1 ? "a shard's file" : kExpected);
    if (top != "weight_map" && top != "metadata") return refusal("has no place here", kExpected);
    has_map = has_map || top == "weight_map";
    return std::nullopt;
  }

  std::optional<JsonRefusal> scalar(const JsonPath& path, JsonScalar& value) override {
    if (path.size() < 2) return refusal("has no place here", kExpected);
    const std::string& top = std::get<std::string>(path[0]);
    const auto* key = std::get_if<std::string>(&path[1]);
    if (top == "metadata" && path.size() == 2 && key != nullptr && *key == "total_size") take_total(value);
    if (top == "metadata") return std::nullopt;
    auto* shard = std::get_if<std::string>(&value);
    if (shard == nullptr || !is_plain_file_name(*shard))
      return refusal("names no shard", "the name of a file beside the index");
    index.shard_of[*key] = std::move(*shard);
    return std::nullopt;
  }

  std::optional<JsonRefusal> end(const JsonPath&) override { return std::nullopt; }

 private:
  static std::optional<JsonRefusal> refusal(std::string message, std::string expected) {
    return JsonRefusal{std::move(message), std::move(expected)};
  }
  // Some tools write it as 14483464192.0.
  void take_total(const JsonScalar& value) {
    constexpr double kMostExact = 9007199254740992.0;  // 2^53
    if (const auto* whole = std::get_if<uint64_t>(&value)) index.total_bytes = *whole;
    if (const auto* real = std::get_if<double>(&value); real != nullptr && *real >= 0 && *real < kMostExact)
      index.total_bytes = static_cast<uint64_t>(*real);
  }
};

}  // namespace

Result<WeightsIndex> parse_weights_index(std::string_view json, const std::string& file) {
  IndexReader reader;
  PLIMSOLL_CHECK(read_json(json, {.file = file}, reader));
  if (!reader.has_map || reader.index.shard_of.empty())
    return fail({.position = {.file = file, .key = "weight_map"},
                 .message = reader.has_map ? "names no tensor" : "is missing",
                 .expected = kExpected});
  return std::move(reader.index);
}

Result<WeightsIndex> read_weights_index(const std::filesystem::path& path) {
  constexpr size_t kMostBytes = size_t{256} << 20;
  PLIMSOLL_TRY(text, read_file(path, {.most_bytes = kMostBytes, .expected = "an index of shards"}));
  return parse_weights_index(text, path.string());
}

std::string weights_index_text(const WeightsIndex& index) {
  nlohmann::json root;
  root["metadata"]["total_size"] = index.total_bytes.value_or(0);
  root["weight_map"] = index.shard_of;
  return root.dump(2) + "\n";
}

}  // namespace plimsoll
