#include "hardware/fact_reader.h"

#include <fmt/format.h>

#include <array>
#include <cassert>
#include <cmath>
#include <type_traits>

#include "hardware/name_match.h"

namespace plimsoll {
namespace {

enum class Dimension { kBytes, kBytesPerSecond, kFlopsPerSecond };

struct Unit {
  std::string_view ending;
  std::string_view name;
  Dimension dimension;
  double scale;
};
constexpr std::array<Unit, 6> kUnits = {{{"_bytes", "bytes", Dimension::kBytes, 1},
                                         {"_mib", "MiB", Dimension::kBytes, 1048576},
                                         {"_gib", "GiB", Dimension::kBytes, 1073741824},
                                         {"_gb", "GB", Dimension::kBytes, 1e9},
                                         {"_gb_per_s", "GB/s", Dimension::kBytesPerSecond, 1e9},
                                         {"_tflop_per_s", "TFLOP/s", Dimension::kFlopsPerSecond, 1e12}}};

const Unit* unit_of(std::string_view key) {
  for (const Unit& unit : kUnits)
    if (key.ends_with(unit.ending)) return &unit;
  return nullptr;
}

std::string_view without_unit(std::string_view key) {
  const Unit* unit = unit_of(key);
  return unit == nullptr ? key : key.substr(0, key.size() - unit->ending.size());
}

std::string text_of(Range range, std::string_view key) {
  const Unit* unit = unit_of(key);
  return fmt::format("from {} to {}{}{}", range.least, range.most, unit == nullptr ? "" : " ",
                     unit == nullptr ? std::string_view() : unit->name);
}

template <typename Type>
constexpr Dimension dimension_of() {
  if constexpr (std::is_same_v<Type, Bytes>) return Dimension::kBytes;
  if constexpr (std::is_same_v<Type, BytesPerSecond>) return Dimension::kBytesPerSecond;
  return Dimension::kFlopsPerSecond;
}

std::string parent_of(std::string_view key) { return std::string(key.substr(0, key.rfind('.'))); }

}  // namespace

void FactReader::refuse(const std::string& key, std::string message, std::string expected, std::string hint) {
  if (error_) return;
  error_ = Error{.position = document_.position_of(key),
                 .message = std::move(message),
                 .expected = std::move(expected),
                 .hint = std::move(hint)};
  if (!error_->position.line) {  // a table: its place is that of the first value in it
    const auto first = document_.values.lower_bound(key + ".");
    if (first == document_.values.end() || !first->first.starts_with(key + ".")) return;
    error_->position.line = first->second.line;
    error_->position.column = first->second.column;
  }
}

const TomlValue* FactReader::find(const std::string& key) {
  known_.insert(key);
  const auto at = document_.values.find(key);
  return at == document_.values.end() ? nullptr : &at->second;
}

bool FactReader::has_section(std::string_view name) {
  const std::string prefix = std::string(name) + ".";
  const auto first = document_.values.lower_bound(prefix);
  return first != document_.values.end() && first->first.starts_with(prefix);
}

void FactReader::require(const std::string& key) {
  refuse(key, "is missing", unit_of(key) == nullptr ? "" : fmt::format("a number in {}", unit_of(key)->name));
}

std::optional<std::string> FactReader::optional_text(const std::string& key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(&value->content);
  if (text != nullptr && !text->empty()) return *text;
  refuse(key, text == nullptr ? "is no string" : "is empty", "a string in quotes");
  return std::nullopt;
}

std::string FactReader::required_text(const std::string& key) {
  const std::optional<std::string> text = optional_text(key);
  if (!text) require(key);
  return text.value_or("");
}

std::vector<std::string> FactReader::texts(const std::string& key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return {};
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value->content)) return *texts;
  refuse(key, "is no list", "a list of strings");
  return {};
}

bool FactReader::flag(const std::string& key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return false;
  if (const bool* flag = std::get_if<bool>(&value->content)) return *flag;
  refuse(key, "is neither true nor false", "true or false");
  return false;
}

std::optional<double> FactReader::plain_number(const std::string& key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* integer = std::get_if<int64_t>(&value->content)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value->content)) return *number;
  refuse(key, "is no number", "a number");
  return std::nullopt;
}

std::string FactReader::source_of(const std::string& key) {
  std::string label = required_text(key + ".source");
  if (label.empty()) return label;
  used_sources_.insert(label);
  const auto source = optional_text("sources." + label);
  if (!source)
    refuse(key + ".source", fmt::format("names \"{}\", which is not in [sources]", label),
           fmt::format("[sources] with {} = \"data sheet, page, measurement\"", label));
  return source.value_or("");
}

// The number and its provenance, remembered as a fact; nothing when the key is absent.
std::optional<double> FactReader::number(const std::string& key, Range range) {
  if (document_.values.contains(key)) {
    find(key);
    refuse(key, "has no source", "{ value = ..., source = \"a key of [sources]\" }");
    return std::nullopt;
  }
  const bool is_present = has_section(key);
  const std::optional<double> value = plain_number(key + ".value");
  if (!is_present) return std::nullopt;
  if (!value) require(key + ".value");
  const double number = value.value_or(range.least);
  if (!(number >= range.least && number <= range.most))
    refuse(key + ".value", fmt::format("{} can't be right", number), text_of(range, key));
  const bool is_estimate = flag(key + ".estimate");
  facts_.push_back({.key = key, .value = number, .source = source_of(key), .is_estimate = is_estimate});
  return error_ ? std::optional(range.least) : number;
}

std::optional<int64_t> FactReader::optional_count(const std::string& key, Range range) {
  const std::optional<double> count = number(key, range);
  if (!count) return std::nullopt;
  if (*count != std::floor(*count)) refuse(key + ".value", "is no whole number", text_of(range, key));
  return static_cast<int64_t>(*count);
}

int64_t FactReader::required_count(const std::string& key, Range range) {
  const std::optional<int64_t> count = optional_count(key, range);
  if (!count) require(key);
  return count.value_or(0);
}

template <typename Type>
std::optional<Type> FactReader::optional(const std::string& key, Range range) {
  const Unit* unit = unit_of(key);
  assert(unit != nullptr && unit->dimension == dimension_of<Type>() && "a quantity's key ends in its unit");
  const std::optional<double> amount = number(key, range);
  if (!amount) return std::nullopt;
  return Type{std::llround(*amount * unit->scale)};
}

template <typename Type>
Type FactReader::required(const std::string& key, Range range) {
  const std::optional<Type> quantity = optional<Type>(key, range);
  if (!quantity) require(key);
  return quantity.value_or(Type{});
}

template std::optional<Bytes> FactReader::optional(const std::string&, Range);
template std::optional<BytesPerSecond> FactReader::optional(const std::string&, Range);
template std::optional<FlopsPerSecond> FactReader::optional(const std::string&, Range);
template Bytes FactReader::required(const std::string&, Range);
template BytesPerSecond FactReader::required(const std::string&, Range);
template FlopsPerSecond FactReader::required(const std::string&, Range);

std::string FactReader::hint_for(const std::string& unknown) const {
  std::vector<std::string> candidates;
  for (const std::string& key : known_) {
    const std::string name = key.ends_with(".value") ? parent_of(key) : key;
    const Unit* unit = unit_of(name);
    if (unit != nullptr && without_unit(name) == without_unit(unknown))
      return fmt::format("the key is \"{}\": its unit is {}", name, unit->name);
    candidates.push_back(name);
  }
  const std::vector<std::string> close = close_matches(unknown, candidates);
  return close.empty() ? "" : fmt::format("did you mean \"{}\"?", close.front());
}

void FactReader::refuse_unknown_keys() {
  for (const auto& [key, value] : document_.values) {
    if (known_.contains(key)) continue;
    if (key.starts_with("sources.")) {
      refuse(key, "is a source that no number names", "");
      return;
    }
    const std::string ending = key.substr(key.rfind('.') + 1);
    const bool is_part = ending == "value" || ending == "source" || ending == "estimate";
    const std::string name = is_part ? parent_of(key) : key;
    refuse(
        key,
        std::holds_alternative<EmptyTable>(value.content) ? "is an empty table" : "is not a key of this file",
        "", hint_for(name));
    return;
  }
}

Result<bool> FactReader::finish() {
  if (!error_) refuse_unknown_keys();
  if (error_) return fail(*error_);
  return true;
}

}  // namespace plimsoll
