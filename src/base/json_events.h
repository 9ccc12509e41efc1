// A stranger's JSON text as a sequence of events, for readers that know what may stand where. Holds no tree:
// memory is that of the keys of the objects that are open.
//
//   class Names : public JsonHandler { ... };
//   PLIMSOLL_CHECK(read_json(text, {.file = "index.json", .deepest = 3}, names));
//
// Errors, with the file and the key or the byte: what isn't strict JSON in UTF-8; a byte of value 0; a key
// twice in one object; objects and lists nested deeper than `deepest`; what the handler refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace plimsoll {

// The way to a value: keys, and places in lists.
using JsonStep = std::variant<std::string, size_t>;
using JsonPath = std::vector<JsonStep>;
std::string to_text(const JsonPath& path);  // "weight_map.norm", "shape[1]"

// uint64_t: not negative; int64_t: negative. An integer beyond those is a double.
using JsonScalar = std::variant<std::nullptr_t, bool, uint64_t, int64_t, double, std::string>;
enum class JsonContainer { kObject, kList };
struct JsonRefusal {
  std::string message, expected;
};

class JsonHandler {
 public:
  JsonHandler() = default;
  virtual ~JsonHandler() = default;
  JsonHandler(const JsonHandler&) = delete;
  JsonHandler& operator=(const JsonHandler&) = delete;

  // In the text's order. The path is that of the value; the text's own value has an empty one.
  virtual std::optional<JsonRefusal> begin(const JsonPath& path, JsonContainer container) = 0;
  virtual std::optional<JsonRefusal> scalar(const JsonPath& path, JsonScalar& value) = 0;
  virtual std::optional<JsonRefusal> end(const JsonPath& path) = 0;
};

struct JsonOptions {
  std::string file;         // for errors
  uint64_t first_byte = 0;  // where the text begins in the file
  size_t deepest = 8;
};

Result<void> read_json(std::string_view text, const JsonOptions& options, JsonHandler& handler);

}  // namespace plimsoll
