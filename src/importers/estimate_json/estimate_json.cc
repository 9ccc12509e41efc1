#include "importers/estimate_json/estimate_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "importers/hf_config/json_tree.h"

namespace plimsoll {
namespace {

using Object = ConfigValue::Object;

constexpr std::string_view kSchema = "plimsoll.estimate/1";
constexpr std::string_view kAnySchema = "\"plimsoll.estimate/";
constexpr const char* kPrinted = "what `plimsoll estimate ... --json` prints";

// An object of the file, and the way to it.
struct Place {
  const Object& object;
  std::string path;  // "phases.load."; empty: the whole
  int line = 1, column = 1;
};

class EstimateReader {
 public:
  explicit EstimateReader(const std::string& file) : file_(file) {}

  Result<EstimatedMemory> read(const Object& root) const {
    const Place whole{.object = root};
    PLIMSOLL_CHECK(check_schema(whole));
    PLIMSOLL_TRY(phases, object(whole, "phases"));
    EstimatedMemory memory;
    for (const ConfigMember& member : phases.object) {
      PLIMSOLL_TRY(place, object(phases, member.key));
      PLIMSOLL_TRY(phase, read_phase(member.key, place));
      memory.phases.push_back(std::move(phase));
    }
    if (memory.phases.empty())
      return fail({.position = {.file = file_, .key = "phases", .line = phases.line, .column = phases.column},
                   .message = "is empty",
                   .expected = "at least one phase"});
    return memory;
  }

 private:
  Result<void> check_schema(const Place& whole) const {
    PLIMSOLL_TRY(member, find(whole, "schema"));
    const auto* const schema = member->value.as<std::string>();
    if (schema && *schema == kSchema) return {};
    return fail({.position = position(*member, "schema"),
                 .message = schema ? fmt::format("is \"{}\"", shown_text(*schema)) : "is no text",
                 .expected = std::string(kSchema),
                 .hint = "print the estimate with this version of plimsoll"});
  }

  Result<EstimatedPhase> read_phase(const std::string& name, const Place& place) const {
    EstimatedPhase phase{.name = name};
    for (const auto& [key, target] :
         {std::pair("allocated_bytes", &phase.allocated), std::pair("active_bytes", &phase.active),
          std::pair("reserved_bytes", &phase.reserved)}) {
      PLIMSOLL_TRY(value, bytes(place, key));
      *target = value;
    }
    PLIMSOLL_TRY(categories, object(place, "peak_category_bytes"));
    for (const ConfigMember& member : categories.object) {
      PLIMSOLL_TRY(value, bytes(categories, member.key));
      phase.categories.emplace_back(member.key, value);
    }
    PLIMSOLL_CHECK(read_modules(place, phase.modules));
    return phase;
  }

  // Estimates of before name none.
  Result<void> read_modules(const Place& place, std::vector<EstimatedModule>& modules) const {
    if (std::ranges::find(place.object, "peak_modules", &ConfigMember::key) == place.object.end()) return {};
    PLIMSOLL_TRY(member, find(place, "peak_modules"));
    const std::string path = place.path + "peak_modules";
    const auto* const list = member->value.as<ConfigValue::List>();
    if (!list)
      return fail({.position = position(*member, path), .message = "is no list", .expected = kPrinted});
    for (size_t i = 0; i < list->size(); ++i) {
      const auto* const object = (*list)[i].as<Object>();
      const std::string row_path = fmt::format("{}[{}]", path, i);
      if (!object)
        return fail(
            {.position = position(*member, row_path), .message = "is no JSON object", .expected = kPrinted});
      const ConfigMember& first = object->empty() ? *member : object->front();
      const Place row{.object = *object, .path = row_path + ".", .line = first.line, .column = first.column};
      PLIMSOLL_TRY(module, text(row, "module"));
      PLIMSOLL_TRY(category, text(row, "category"));
      PLIMSOLL_TRY(size, bytes(row, "bytes"));
      modules.push_back({.module = std::move(module), .category = std::move(category), .bytes = size});
    }
    return {};
  }

  SourcePosition position(const ConfigMember& member, const std::string& path) const {
    return {.file = file_, .key = shown_text(path), .line = member.line, .column = member.column};
  }
  Result<const ConfigMember*> find(const Place& place, std::string_view key) const {
    const auto found = std::ranges::find(place.object, key, &ConfigMember::key);
    if (found != place.object.end()) return &*found;
    return fail({.position = {.file = file_,
                              .key = shown_text(fmt::format("{}{}", place.path, key)),
                              .line = place.line,
                              .column = place.column},
                 .message = "is missing",
                 .expected = kPrinted});
  }
  Result<Place> object(const Place& place, std::string_view key) const {
    PLIMSOLL_TRY(member, find(place, key));
    const auto* const object = member->value.as<Object>();
    const std::string path = fmt::format("{}{}", place.path, key);
    if (!object)
      return fail(
          {.position = position(*member, path), .message = "is no JSON object", .expected = kPrinted});
    return Place{.object = *object, .path = path + ".", .line = member->line, .column = member->column};
  }
  Result<std::string> text(const Place& place, std::string_view key) const {
    PLIMSOLL_TRY(member, find(place, key));
    if (const auto* const text = member->value.as<std::string>()) return *text;
    return fail({.position = position(*member, fmt::format("{}{}", place.path, key)),
                 .message = "is no text",
                 .expected = kPrinted});
  }
  Result<Bytes> bytes(const Place& place, std::string_view key) const {
    PLIMSOLL_TRY(member, find(place, key));
    const auto* const number = member->value.as<int64_t>();
    if (number && *number >= 0 && *number < kMaxQuantity) return Bytes{*number};
    const bool is_fraction = member->value.as<double>() != nullptr;
    return fail({.position = position(*member, fmt::format("{}{}", place.path, key)),
                 .message = number && *number < 0 ? fmt::format("is {}", *number)
                            : number              ? "is too large"
                            : is_fraction         ? "is no whole number, or too large"
                                                  : "is no number",
                 .expected = fmt::format("a number of bytes from 0 to {}", kMaxQuantity - 1)});
  }

  const std::string& file_;
};

}  // namespace

bool sniff_estimate_json(std::string_view first_bytes) {
  const size_t first = first_bytes.find_first_not_of(" \t\r\n");
  const bool is_object = first != std::string_view::npos && first_bytes[first] == '{';
  return is_object && first_bytes.find(kAnySchema) != std::string_view::npos;
}

Result<EstimatedMemory> read_estimate_json(std::string_view text, const std::string& file) {
  PLIMSOLL_TRY(root, parse_json_object(text, file, kPrinted));
  return EstimateReader(file).read(root);
}

}  // namespace plimsoll
