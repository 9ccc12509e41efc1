#include "strategy/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "base/utf8.h"
#include "strategy/limits.h"
#include "strategy/name_hints.h"
#include "strategy/path_match.h"

namespace plimsoll {
namespace {

constexpr std::string_view kDefaultWord = "default";

std::string_view kind_text(FieldKind kind) {
  switch (kind) {
    case FieldKind::kBoolean:
      return "true or false";
    case FieldKind::kInteger:
      return "an integer";
    case FieldKind::kNumber:
      return "a number";
    case FieldKind::kChoice:
      return "one of ";
    case FieldKind::kText:
      return "a string";
    case FieldKind::kTextList:
      return "a list of strings";
  }
  return "";
}

std::string_view kind_of(const FieldValue& value) {
  constexpr std::string_view kNames[] = {"a boolean", "an integer", "a number", "a string",
                                         "a list of strings"};
  return kNames[value.index()];
}

bool is_of_kind(const FieldValue& value, FieldKind kind) {
  switch (kind) {
    case FieldKind::kBoolean:
      return std::holds_alternative<bool>(value);
    case FieldKind::kInteger:
      return std::holds_alternative<int64_t>(value);
    case FieldKind::kNumber:
      return std::holds_alternative<double>(value);
    case FieldKind::kChoice:
    case FieldKind::kText:
      return std::holds_alternative<std::string>(value);
    case FieldKind::kTextList:
      return std::holds_alternative<std::vector<std::string>>(value);
  }
  return false;
}

// Spellings that mean the same: 25 for a number, true for the choice "true".
FieldValue adapted(const Field& field, FieldValue value) {
  if (field.kind == FieldKind::kNumber && std::holds_alternative<int64_t>(value))
    return static_cast<double>(std::get<int64_t>(value));
  if (field.kind == FieldKind::kChoice && std::holds_alternative<bool>(value))
    return std::string(std::get<bool>(value) ? "true" : "false");
  return value;
}

bool is_in_range(const FieldValue& value, const FieldRange& range) {
  double number = 0;
  if (const auto* integer = std::get_if<int64_t>(&value)) number = static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) number = *real;
  if (!std::isfinite(number) || number > range.highest) return false;
  return range.is_lowest_excluded ? number > range.lowest : number >= range.lowest;
}

bool can_be_reset(const Field& field) {
  return field.kind != FieldKind::kText && field.kind != FieldKind::kTextList;
}

bool is_reset(const Field& field, const FieldValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (field.kind == FieldKind::kText) return text && text->empty();
  return can_be_reset(field) && text && *text == kDefaultWord;
}

bool is_small(const FieldValue& value) {
  const auto fits = [](const std::string& text) { return text.size() <= kMaxTextBytes; };
  if (const auto* text = std::get_if<std::string>(&value)) return fits(*text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    return list->size() <= kMaxListItems && std::ranges::all_of(*list, fits);
  return true;
}

// A job file couldn't hold it otherwise.
bool is_text(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return is_utf8(*text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    return std::ranges::all_of(*list, is_utf8);
  return true;
}

std::string hint_for(const Field& field, std::string_view word) {
  std::string hint = name_hint(field.text.path, word);
  return hint.empty() ? did_you_mean(word, field.choices) : hint;
}

// "-1 is out of range"; with the nearest choice as hint.
Error bad_value(const Field& field, std::string message, const FieldValue& value, SourcePosition position) {
  Error error{.position = std::move(position), .message = std::move(message), .expected = field.expected()};
  if (const auto* text = std::get_if<std::string>(&value); text && field.kind == FieldKind::kChoice)
    error.hint = hint_for(field, *text);
  return error;
}

template <typename Number>
std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!trimmed(text).empty()) {
    const auto comma = text.find(',');
    items.emplace_back(trimmed(text.substr(0, comma)));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return items;
}

std::optional<FieldValue> parsed(FieldKind kind, std::string_view text) {
  switch (kind) {
    case FieldKind::kBoolean:
      if (text == "true" || text == "false") return FieldValue(text == "true");
      return std::nullopt;
    case FieldKind::kInteger:
      if (const auto number = number_from<int64_t>(text)) return FieldValue(*number);
      return std::nullopt;
    case FieldKind::kNumber:
      if (const auto number = number_from<double>(text)) return FieldValue(*number);
      return std::nullopt;
    case FieldKind::kChoice:
    case FieldKind::kText:
      return FieldValue(std::string(text));
    case FieldKind::kTextList:
      return FieldValue(split_list(text));
  }
  return std::nullopt;
}

std::vector<std::string> all_paths() {
  std::vector<std::string> paths;
  for (const Field& field : job_fields()) paths.emplace_back(field.text.path);
  paths.emplace_back(kOverridesPath);
  return paths;
}

// What may stand in a section; for no section, or one that there isn't: the sections too.
std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names, sections;
  for (const Field& field : job_fields()) {
    if (field.section() == section) names.emplace_back(field.text.path);
    std::string heading = fmt::format("[{}]", field.section());
    if (!field.section().empty() && (sections.empty() || sections.back() != heading))
      sections.push_back(std::move(heading));
  }
  if (section == "model") names.emplace_back(kOverridesPath);
  if (section.empty() || names.empty()) std::ranges::move(sections, std::back_inserter(names));
  return names;
}

}  // namespace

std::string_view Field::section() const {
  const auto dot = text.path.find('.');
  return dot == std::string_view::npos ? std::string_view{} : text.path.substr(0, dot);
}

std::string_view Field::key() const {
  const auto dot = text.path.find('.');
  return dot == std::string_view::npos ? text.path : text.path.substr(dot + 1);
}

std::string Field::expected() const {
  std::string words(form.empty() ? kind_text(kind) : form);
  if (kind == FieldKind::kChoice) words += fmt::format("{}", fmt::join(choices, ", "));
  if (range && range->is_lowest_excluded)
    words += fmt::format(" above {} up to {}", range->lowest, range->highest);
  if (range && !range->is_lowest_excluded)
    words += fmt::format(" from {:.0f} to {:.0f}", range->lowest, range->highest);
  if (!text.unit.empty()) words += fmt::format(" ({})", text.unit);
  return words;
}

const Field* find_field(std::string_view path) {
  const auto& fields = job_fields();
  const auto found = std::ranges::find(fields, path, [](const Field& field) { return field.text.path; });
  return found == fields.end() ? nullptr : &*found;
}

Result<void> set_field(Job& job, const Field& field, FieldValue value, SourcePosition position) {
  position.key = field.text.path;
  value = adapted(field, std::move(value));
  if (is_reset(field, value)) {
    field.reset(job);
    job.given.erase(position.key);
    return {};
  }
  if (!is_of_kind(value, field.kind))
    return fail(bad_value(field, fmt::format("is {}", kind_of(value)), value, std::move(position)));
  if (!is_small(value))
    return fail({.position = std::move(position),
                 .message = "is too long",
                 .expected = fmt::format("at most {} bytes a string, {} strings a list", kMaxTextBytes,
                                         kMaxListItems)});
  if (!is_text(value))
    return fail(
        {.position = std::move(position), .message = "holds bytes that are no text", .expected = "UTF-8"});
  if (field.range && !is_in_range(value, *field.range))
    return fail(bad_value(field, fmt::format("{} is out of range", to_plain_text(value)), value,
                          std::move(position)));
  if (auto done = field.set(job, value); !done)
    return fail(bad_value(field, std::move(done.error().message), value, std::move(position)));
  job.given.emplace(field.text.path);
  return {};
}

Result<FieldValue> field_value_from_text(const Field& field, std::string_view text, SourcePosition position) {
  text = field.kind == FieldKind::kText ? text : trimmed(text);
  if (can_be_reset(field) && text == kDefaultWord) return FieldValue(std::string(text));
  if (auto value = parsed(field.kind, text)) return *std::move(value);
  position.key = field.text.path;
  return fail({.position = std::move(position),
               .message = fmt::format("\"{}\" can't be read as {}", text, kind_text(field.kind)),
               .expected = field.expected()});
}

std::string to_plain_text(const FieldValue& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const std::vector<std::string>& list) const {
      return fmt::format("{}", fmt::join(list, ", "));
    }
  };
  return std::visit(Writer{}, value);
}

// "train.lr" for train.learning_rate; empty: no field's words begin so.
std::string meant_by_initials(std::string_view path) {
  for (const std::string& known : all_paths()) {
    const size_t dot = known.find('.') + 1;  // 0: a field without a section
    std::string initials = known.substr(0, dot);
    for (size_t i = dot; i < known.size(); ++i)
      if (i == dot || known[i - 1] == '_') initials += known[i];
    if (initials == path) return fmt::format("did you mean {}?", known);
  }
  return {};
}

Error unknown_field(std::string_view path, SourcePosition position) {
  position.key = path;
  const auto dot = path.find('.');
  const std::string_view section = dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
  std::string hint = did_you_mean(path, all_paths());
  return {.position = std::move(position),
          .message = "no such field in a job",
          .expected = fmt::format("one of {}", fmt::join(names_in(section), ", ")),
          .hint = hint.empty() ? meant_by_initials(path) : std::move(hint)};
}

std::string reset_setting(const Field& field) {
  std::string value(field.kind == FieldKind::kText ? "" : kDefaultWord);
  if (field.kind == FieldKind::kTextList) {
    const std::optional<FieldValue> list = field.get(Job());
    value = list ? to_plain_text(*list) : "";
  }
  return fmt::format("{}={}", field.text.path, value);
}

}  // namespace plimsoll
