#include "strategy/job_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/read_file.h"
#include "strategy/errors.h"
#include "strategy/field.h"
#include "strategy/limits.h"
#include "strategy/toml_scan.h"
#include "strategy/toml_text.h"

namespace plimsoll {
namespace {

SourcePosition position_of(const toml::source_region& region, const std::string& file, std::string key) {
  SourcePosition position{.file = file, .key = std::move(key)};
  if (region.begin) {
    position.line = static_cast<int>(region.begin.line);
    position.column = static_cast<int>(region.begin.column);
  }
  return position;
}

SourcePosition position_at(std::string_view text, size_t offset, const std::string& file) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // 0 in the first line
  const auto line = std::ranges::count(before, '\n') + 1;
  return {.file = file, .line = static_cast<int>(line), .column = static_cast<int>(offset - line_start + 1)};
}

Result<void> check_before_parsing(std::string_view text, const std::string& file) {
  if (const auto offset = find_foreign_byte(text))
    return fail({.position = position_at(text, *offset, file),
                 .message = fmt::format("has the byte 0x{:02X} outside texts and comments",
                                        static_cast<unsigned char>(text[*offset])),
                 .expected = "TOML: letters that are not ASCII stand in texts, between \" or '"});
  if (const auto offset = find_too_deep(text))
    return fail({.position = position_at(text, *offset, file),
                 .message = fmt::format("is nested deeper than {} levels", kMaxTomlDepth),
                 .expected = "a job file"});
  return {};
}

Result<toml::table> parse_toml(std::string_view text, const std::string& file) {
  PLIMSOLL_CHECK(check_before_parsing(text, file));
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    return fail({.position = position_of(error.source(), file, {}),
                 .message = std::string(error.description()),
                 .expected = "a job file in TOML"});
  }
}

// --- values ---

Result<FieldValue> list_value(const toml::array& array, const SourcePosition& position) {
  std::vector<std::string> list;
  for (const toml::node& item : array) {
    const auto text = item.value_exact<std::string>();
    if (!text) return fail({.position = position, .message = "holds something else than texts"});
    list.push_back(*text);
  }
  return FieldValue(std::move(list));
}

Result<FieldValue> field_value(const toml::node& node, const Field& field, const SourcePosition& position) {
  if (const auto flag = node.value_exact<bool>()) return FieldValue(*flag);
  if (const auto number = node.value_exact<int64_t>()) return FieldValue(*number);
  if (const auto number = node.value_exact<double>()) return FieldValue(*number);
  if (auto text = node.value_exact<std::string>()) return FieldValue(*std::move(text));
  if (node.is_array()) return list_value(*node.as_array(), position);
  return fail({.position = position,
               .message = node.is_table() ? "is a table" : "is a date or a time",
               .expected = field.expected()});
}

// --- model.overrides ---

Result<nlohmann::json> json_value(const toml::node& node, const SourcePosition& position, int depth);

Result<nlohmann::json> json_array(const toml::array& array, const SourcePosition& position, int depth) {
  nlohmann::json json = nlohmann::json::array();
  for (const toml::node& item : array) {
    PLIMSOLL_TRY(value, json_value(item, position, depth + 1));
    json.push_back(std::move(value));
  }
  return json;
}

Result<nlohmann::json> json_object(const toml::table& table, const SourcePosition& position, int depth) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [key, item] : table) {
    PLIMSOLL_TRY(value, json_value(item, position, depth + 1));
    json[std::string(key.str())] = std::move(value);
  }
  return json;
}

// TOML has no null: the text "null" stands for it.
Result<nlohmann::json> json_value(const toml::node& node, const SourcePosition& position, int depth) {
  if (depth > kMaxOverrideDepth)
    return fail({.position = position,
                 .message = "is nested too deeply",
                 .expected = fmt::format("at most {} levels", kMaxOverrideDepth)});
  if (const auto flag = node.value_exact<bool>()) return nlohmann::json(*flag);
  if (const auto number = node.value_exact<int64_t>()) return nlohmann::json(*number);
  if (const auto number = node.value_exact<double>(); number && std::isfinite(*number))
    return nlohmann::json(*number);
  if (const auto text = node.value_exact<std::string>())
    return *text == "null" ? nlohmann::json() : nlohmann::json(*text);
  if (node.is_array()) return json_array(*node.as_array(), position, depth);
  if (node.is_table()) return json_object(*node.as_table(), position, depth);
  return fail({.position = position,
               .message = "is a value that JSON doesn't have",
               .expected = "true, false, a finite number, a string, a list or a table"});
}

void put_override(Job& job, std::string key, std::string json) {
  auto& overrides = job.model.overrides;
  const auto place =
      std::ranges::lower_bound(overrides, key, {}, [](const auto& entry) { return entry.first; });
  if (place != overrides.end() && place->first == key)
    place->second = std::move(json);
  else
    overrides.insert(place, {std::move(key), std::move(json)});
  job.given.emplace(kOverridesPath);
}

Result<void> set_override(Job& job, std::string key, const toml::node& node, const SourcePosition& position) {
  PLIMSOLL_TRY(json, json_value(node, position, 0));
  std::string text = json.dump();
  if (key.empty() || key.size() > kMaxTextBytes || text.size() > kMaxOverrideBytes)
    return fail({.position = position,
                 .message = "is empty or too long",
                 .expected = fmt::format("a key of 1 to {} bytes, a value of at most {} bytes", kMaxTextBytes,
                                         kMaxOverrideBytes)});
  if (job.model.overrides.size() >= kMaxOverrides)
    return fail({.position = position,
                 .message = "is one override too many",
                 .expected = fmt::format("at most {}", kMaxOverrides)});
  put_override(job, std::move(key), std::move(text));
  return {};
}

// --- the file ---

// Walks a parsed file and sets what it finds; collects the mistakes.
class JobTableReader {
 public:
  JobTableReader(Job& job, std::string file) : job_(job), file_(std::move(file)) {
    for (const Field& field : job_fields()) sections_.insert(std::string(field.section()));
  }

  std::vector<Error> read(const toml::table& root) {
    for (const auto& [key, node] : root) read_entry(std::string(key.str()), node);
    // TOML tables come in the order of their keys.
    std::ranges::stable_sort(errors_, {}, [](const Error& error) {
      return std::pair(error.position.line, error.position.column);
    });
    return std::move(errors_);
  }

 private:
  void read_entry(const std::string& path, const toml::node& node) {
    if (path == kOverridesPath) return read_overrides(node);
    if (const Field* field = find_field(path)) return read_field(*field, node);
    if (!sections_.contains(path))
      errors_.push_back(unknown_field(path, position(node, path)));
    else if (node.is_table())
      read_section(path, *node.as_table());
    else
      errors_.push_back({.position = position(node, path),
                         .message = "is a section, not a value",
                         .expected = fmt::format("[{}] and its fields below it", path)});
  }

  void read_section(const std::string& section, const toml::table& table) {
    for (const auto& [key, node] : table) {
      const std::string path = fmt::format("{}.{}", section, key.str());
      if (path != kOverridesPath && !find_field(path))
        errors_.push_back(unknown_field(path, position(node, path)));
      else
        read_entry(path, node);
    }
  }

  void read_field(const Field& field, const toml::node& node) {
    const SourcePosition place = position(node, std::string(field.text.path));
    auto value = field_value(node, field, place);
    if (!value)
      errors_.push_back(std::move(value).error());
    else if (auto done = set_field(job_, field, *std::move(value), place); !done)
      errors_.push_back(std::move(done).error());
  }

  void read_overrides(const toml::node& node) {
    const std::string path(kOverridesPath);
    if (!node.is_table()) {
      errors_.push_back({.position = position(node, path),
                         .message = "is not a table",
                         .expected = "[model.overrides] and keys of the configuration below it"});
      return;
    }
    for (const auto& [key, item] : *node.as_table()) {
      std::string name(key.str());
      const SourcePosition place = position(item, fmt::format("{}.{}", path, name));
      if (auto done = set_override(job_, std::move(name), item, place); !done)
        errors_.push_back(std::move(done).error());
    }
  }

  SourcePosition position(const toml::node& node, std::string key) const {
    return position_of(node.source(), file_, std::move(key));
  }

  Job& job_;
  std::string file_;
  std::set<std::string> sections_;
  std::vector<Error> errors_;
};

// `KEY = VALUE` as TOML, or with VALUE as a text where it isn't TOML.
Result<toml::table> parse_assignment(std::string_view key, std::string_view value, const std::string& file) {
  const bool is_line = key.find('\n') == std::string_view::npos && value.find('\n') == std::string_view::npos;
  if (!is_line) return fail({.position = {.file = file}, .message = "has a line break"});
  if (auto table = parse_toml(fmt::format("{} = {}", key, value), file)) return table;
  return parse_toml(fmt::format("{} = {}", key, quoted_toml(value)), file);
}

Result<void> apply_override(Job& job, std::string_view key, std::string_view value, const std::string& file) {
  PLIMSOLL_TRY(table, parse_assignment(key, value, file));
  for (const auto& [name, node] : table) {
    const SourcePosition position{.file = file, .key = fmt::format("{}.{}", kOverridesPath, name.str())};
    PLIMSOLL_CHECK(set_override(job, std::string(name.str()), node, position));
  }
  return {};
}

}  // namespace

Result<Job> parse_job(std::string_view text, std::string file) {
  if (text.size() > kMaxJobFileBytes)
    return fail({.position = {.file = std::move(file)},
                 .message = "is too large",
                 .expected = fmt::format("at most {} bytes", kMaxJobFileBytes)});
  PLIMSOLL_TRY(table, parse_toml(text, file));
  Job job;
  auto errors = JobTableReader(job, std::move(file)).read(table);
  if (!errors.empty()) return fail(combined(std::move(errors), "mistakes in the job file"));
  return job;
}

Result<Job> read_job_file(const std::filesystem::path& path) {
  PLIMSOLL_TRY(text, read_file(path, {.most_bytes = kMaxJobFileBytes, .expected = "a job file"}));
  return parse_job(text, path.string());
}

Result<void> apply_setting(Job& job, std::string_view path, std::string_view value, std::string_view source) {
  const SourcePosition position{.file = std::string(source), .key = std::string(path)};
  const std::string overrides = fmt::format("{}.", kOverridesPath);
  if (path.starts_with(overrides))
    return apply_override(job, path.substr(overrides.size()), value, position.file);
  const Field* field = find_field(path);
  if (!field) return fail(unknown_field(path, position));
  PLIMSOLL_TRY(parsed, field_value_from_text(*field, value, position));
  return set_field(job, *field, std::move(parsed), position);
}

Result<void> apply_setting(Job& job, std::string_view assignment, std::string_view source) {
  const auto equals = assignment.find('=');
  if (equals != std::string_view::npos && equals > 0)
    return apply_setting(job, assignment.substr(0, equals), assignment.substr(equals + 1), source);
  return fail({.position = {.file = std::string(source)},
               .message = fmt::format("\"{}\" is not an assignment", assignment),
               .expected = "FIELD=VALUE, for example batch.sequence=8192"});
}

}  // namespace plimsoll
