#include "hardware/toml_document.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

namespace plimsoll {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 10;
constexpr size_t kMaxValues = 2000;
constexpr size_t kMaxLineBytes = 2048;  // a dotted key nests as deep as its line is long, and toml++ recurses

SourcePosition place(const std::string& file, std::string key, const toml::source_region& region) {
  return {.file = file,
          .key = std::move(key),
          .line = static_cast<int>(region.begin.line),
          .column = static_cast<int>(region.begin.column)};
}

bool is_plain_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

Result<TomlValue> texts_of(const toml::array& array, const SourcePosition& at) {
  std::vector<std::string> texts;
  for (const toml::node& item : array) {
    const auto text = item.value_exact<std::string>();
    if (!text)
      return fail(
          {.position = at, .message = "holds something else than strings", .expected = "a list of strings"});
    texts.push_back(*text);
  }
  return TomlValue{.content = std::move(texts)};
}

Result<TomlValue> value_of(const toml::node& node, const SourcePosition& at) {
  if (const auto text = node.value_exact<std::string>()) return TomlValue{.content = *text};
  if (const auto flag = node.value_exact<bool>()) return TomlValue{.content = *flag};
  if (const auto integer = node.value_exact<int64_t>()) return TomlValue{.content = *integer};
  if (const auto number = node.value_exact<double>()) return TomlValue{.content = *number};
  if (const toml::array* array = node.as_array()) return texts_of(*array, at);
  return fail({.position = at,
               .message = "is a date or a time",
               .expected = "a number, a string or a list of strings"});
}

// Appends the values below `table`, whose own key is `prefix`, to the document.
Result<bool> flatten(const toml::table& table, const std::string& prefix, TomlDocument& document) {
  if (table.empty() && !prefix.empty()) {
    const SourcePosition at = place(document.file, prefix, table.source());
    document.values[prefix] = {.content = EmptyTable{}, .line = *at.line, .column = *at.column};
  }
  for (const auto& [name, node] : table) {
    const std::string key =
        prefix.empty() ? std::string(name.str()) : fmt::format("{}.{}", prefix, name.str());
    const SourcePosition at = place(document.file, key, name.source());
    if (!is_plain_key(name.str()))
      return fail(
          {.position = at, .message = "is no key of ours", .expected = "letters, digits, '_' and '-'"});
    if (const toml::table* inner = node.as_table()) {
      PLIMSOLL_CHECK(flatten(*inner, key, document));
      continue;
    }
    PLIMSOLL_TRY(value, value_of(node, at));
    value.line = *at.line;
    value.column = *at.column;
    document.values[key] = std::move(value);
    if (document.values.size() > kMaxValues)
      return fail({.position = at, .message = fmt::format("is the value after the first {}", kMaxValues)});
  }
  return true;
}

Result<bool> check_size(std::string_view text, const std::string& file) {
  if (text.size() > kMaxFileBytes)
    return fail({.position = {.file = file},
                 .message = fmt::format("has {} bytes", text.size()),
                 .expected = fmt::format("at most {}", kMaxFileBytes)});
  int line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > kMaxLineBytes)
      return fail({.position = {.file = file, .line = line},
                   .message = fmt::format("has {} bytes in one line", end - begin),
                   .expected = fmt::format("at most {}", kMaxLineBytes)});
    begin = end + 1;
  }
  return true;
}

Result<toml::table> parse(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, std::string_view(file));
  } catch (const toml::parse_error& error) {
    return fail({.position = place(file, "", error.source()),
                 .message = fmt::format("is not TOML: {}", error.description())});
  }
}

}  // namespace

SourcePosition TomlDocument::position_of(std::string_view key) const {
  const auto at = values.find(key);
  SourcePosition position{.file = file, .key = std::string(key)};
  if (at != values.end()) {
    position.line = at->second.line;
    position.column = at->second.column;
  }
  return position;
}

Result<TomlDocument> parse_toml(std::string_view text, std::string file) {
  PLIMSOLL_CHECK(check_size(text, file));
  PLIMSOLL_TRY(table, parse(text, file));
  TomlDocument document{.file = std::move(file)};
  PLIMSOLL_CHECK(flatten(table, "", document));
  return document;
}

Result<TomlDocument> read_toml(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code))
    return fail({.position = {.file = path.string()}, .message = "is no file"});
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail({.position = {.file = path.string()}, .message = "can't be opened"});
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return parse_toml(text, path.string());
}

}  // namespace plimsoll
