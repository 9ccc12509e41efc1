#include "model/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace plimsoll {
namespace {

std::string shown(const ConfigValue& value) {
  if (value.is_null()) return "null";
  if (const bool* b = value.as<bool>()) return *b ? "true" : "false";
  if (const int64_t* i = value.as<int64_t>()) {
    return *i < std::numeric_limits<int64_t>::max() ? fmt::format("{}", *i) : "an enormous number";
  }
  if (const double* d = value.as<double>()) {
    const std::string digits = fmt::format("{}", *d);
    return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
  }
  if (const std::string* s = value.as<std::string>()) {
    return fmt::format("the string \"{}\"", shown_text(*s));
  }
  return value.as<ConfigValue::List>() != nullptr ? "a list" : "an object";
}

bool says_nothing(const ConfigValue& value) {
  if (value.is_null()) return true;
  if (const bool* b = value.as<bool>()) return !*b;
  if (const int64_t* i = value.as<int64_t>()) return *i == 0;
  if (const double* d = value.as<double>()) return *d == 0;
  if (const std::string* s = value.as<std::string>()) return s->empty();
  if (const auto* list = value.as<ConfigValue::List>()) return list->empty();
  return value.as<ConfigValue::Object>()->empty();
}

}  // namespace

ConfigReader::ConfigReader(const ConfigValue::Object& object, std::string file, std::string prefix)
    : object_(object), file_(std::move(file)), prefix_(std::move(prefix)), is_read_(object.size(), false) {}

const ConfigMember* ConfigReader::find(std::string_view key) const {
  const auto it =
      std::find_if(object_.begin(), object_.end(), [&](const ConfigMember& m) { return m.key == key; });
  return it == object_.end() ? nullptr : &*it;
}

bool ConfigReader::has(std::string_view key) const {
  const ConfigMember* member = find(key);
  return member != nullptr && !member->value.is_null();
}

const ConfigMember* ConfigReader::take(const KeyNames& key) {
  const ConfigMember* first = nullptr;
  for (std::string_view name : key.names) {
    const ConfigMember* member = find(name);
    if (member == nullptr) continue;
    is_read_[static_cast<size_t>(member - object_.data())] = true;
    if (member->value.is_null()) continue;
    if (first == nullptr) {
      first = member;
    } else if (first->value.value.index() != member->value.value.index() ||
               shown(first->value) != shown(member->value)) {
      contradiction(
          name, fmt::format("is {}, but \"{}\" is {}", shown(member->value), first->key, shown(first->value)),
          "two names of one key with one value");
    }
  }
  return first;
}

SourcePosition ConfigReader::position_of(std::string_view key) const {
  SourcePosition position{.file = file_, .key = prefix_ + std::string(key)};
  const ConfigMember* member = find(key);
  if (member != nullptr && member->line > 0) {
    position.line = member->line;
    position.column = member->column;
  }
  return position;
}

void ConfigReader::wrong(std::string_view key, std::string message, std::string expected, std::string hint) {
  if (wrong_) return;
  wrong_ = Error{.position = position_of(key),
                 .message = std::move(message),
                 .expected = std::move(expected),
                 .hint = std::move(hint)};
}

void ConfigReader::contradiction(std::string_view key, std::string message, std::string expected) {
  if (contradiction_) return;
  contradiction_ =
      Error{.position = position_of(key), .message = std::move(message), .expected = std::move(expected)};
}

void ConfigReader::missing(std::string_view key) {
  if (std::find(missing_.begin(), missing_.end(), key) == missing_.end()) missing_.emplace_back(key);
}

void ConfigReader::absorb(const ConfigReader& nested) {
  if (!wrong_) wrong_ = nested.wrong_ ? nested.wrong_ : nested.contradiction_;
}

void ConfigReader::wrong_type(const ConfigMember& member, std::string expected) {
  wrong(member.key, fmt::format("is {}", shown(member.value)), std::move(expected));
}

std::optional<int64_t> ConfigReader::integer(const ConfigMember& member, int64_t smallest, int64_t largest) {
  const int64_t* number = member.value.as<int64_t>();
  if (number != nullptr && *number >= smallest && *number <= largest) return *number;
  wrong_type(member, fmt::format("an integer from {} to {}", smallest, largest));
  return std::nullopt;
}

int64_t ConfigReader::size(const KeyNames& key, int64_t largest) {
  if (const ConfigMember* member = take(key)) return integer(*member, 1, largest).value_or(1);
  missing(key.names.front());
  return 1;
}

std::optional<int64_t> ConfigReader::nullable_size(const KeyNames& key, int64_t largest) {
  if (std::any_of(key.names.begin(), key.names.end(), [&](auto name) { return find(name) != nullptr; })) {
    return optional_size(key, largest);
  }
  missing(key.names.front());
  return std::nullopt;
}

std::optional<int64_t> ConfigReader::optional_size(const KeyNames& key, int64_t largest) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return std::nullopt;
  return integer(*member, 1, largest);
}

int64_t ConfigReader::count(const KeyNames& key, int64_t otherwise, int64_t largest) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return otherwise;
  return integer(*member, 0, largest).value_or(0);
}

int64_t ConfigReader::required_count(const KeyNames& key, int64_t largest) {
  if (const ConfigMember* member = take(key)) return integer(*member, 0, largest).value_or(0);
  missing(key.names.front());
  return 0;
}

bool ConfigReader::flag(const KeyNames& key, bool otherwise) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return otherwise;
  if (const bool* value = member->value.as<bool>()) return *value;
  wrong_type(*member, "true or false");
  return otherwise;
}

std::optional<double> ConfigReader::number(const KeyNames& key, bool (*is_right)(double),
                                           std::string_view expected) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return std::nullopt;
  std::optional<double> value;
  if (const double* number = member->value.as<double>()) value = *number;
  if (const int64_t* number = member->value.as<int64_t>()) value = static_cast<double>(*number);
  if (value && is_right(*value)) return value;
  wrong_type(*member, std::string(expected));
  return std::nullopt;
}

std::optional<double> ConfigReader::number(const KeyNames& key) {
  return number(
      key, [](double) { return true; }, "a number");
}

std::optional<double> ConfigReader::positive(const KeyNames& key) {
  return number(
      key, [](double value) { return value > 0; }, "a number above 0");
}

double ConfigReader::probability(const KeyNames& key, double otherwise) {
  const auto is_right = [](double value) { return value >= 0 && value <= 1; };
  return number(key, is_right, "a probability from 0 to 1").value_or(otherwise);
}

std::optional<std::string> ConfigReader::text(const KeyNames& key) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return std::nullopt;
  if (const std::string* value = member->value.as<std::string>()) return *value;
  wrong_type(*member, "a string");
  return std::nullopt;
}

std::optional<std::vector<std::string>> ConfigReader::texts(const KeyNames& key) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return std::nullopt;
  std::vector<std::string> result;
  if (const auto* list = member->value.as<ConfigValue::List>()) {
    for (const ConfigValue& item : *list) {
      if (const std::string* text = item.as<std::string>()) result.push_back(*text);
    }
    if (result.size() == list->size()) return result;
  }
  wrong_type(*member, "a list of strings");
  return std::nullopt;
}

std::optional<std::vector<int64_t>> ConfigReader::integers(const KeyNames& key) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return std::nullopt;
  std::vector<int64_t> result;
  if (const auto* list = member->value.as<ConfigValue::List>()) {
    for (const ConfigValue& item : *list) {
      if (const int64_t* number = item.as<int64_t>()) result.push_back(*number);
      if (const bool* flag = item.as<bool>()) result.push_back(*flag ? 1 : 0);
    }
    if (result.size() == list->size()) return result;
  }
  wrong_type(*member, "a list of integers");
  return std::nullopt;
}

const ConfigValue::Object* ConfigReader::object(const KeyNames& key) {
  const ConfigMember* member = take(key);
  if (member == nullptr) return nullptr;
  if (const auto* value = member->value.as<ConfigValue::Object>()) return value;
  wrong_type(*member, "an object");
  return nullptr;
}

const ConfigValue::Object* ConfigReader::required_object(const KeyNames& key) {
  if (take(key) != nullptr) return object(key);
  missing(key.names.front());
  return nullptr;
}

void ConfigReader::ignore(const KeyNames& key) {
  for (std::string_view name : key.names) {
    if (const ConfigMember* member = find(name))
      is_read_[static_cast<size_t>(member - object_.data())] = true;
  }
}

void ConfigReader::require_flag(const KeyNames& key, bool only, std::string_view why) {
  if (flag(key, only) == only) return;
  wrong(key.names.front(), fmt::format("is {}, which isn't supported: {}", !only, why),
        fmt::format("{}", only));
}

std::optional<Error> ConfigReader::problem(std::string_view family) const {
  if (wrong_) return wrong_;
  if (missing_.empty()) return contradiction_;
  std::vector<std::string> quoted;
  for (const std::string& key : missing_) quoted.push_back(fmt::format("\"{}{}\"", prefix_, key));
  return Error{
      .position = {.file = file_},
      .message = fmt::format("missing key{} {}", quoted.size() > 1 ? "s" : "", fmt::join(quoted, ", ")),
      .expected = fmt::format("the sizes of the model's tensors, in the form that Hugging Face "
                              "Transformers gives a \"{}\" configuration",
                              family),
      .hint = "sizes are never guessed: add what is missing, or start from the model's own config.json"};
}

bool ConfigReader::was_asked_for(std::string_view key) const {
  const ConfigMember* member = find(key);
  return member != nullptr && is_read_[static_cast<size_t>(member - object_.data())];
}

std::vector<std::string> ConfigReader::unread_keys() const {
  std::vector<std::string> keys;
  for (size_t i = 0; i < object_.size(); ++i) {
    if (!is_read_[i] && !says_nothing(object_[i].value)) keys.push_back(prefix_ + shown_text(object_[i].key));
  }
  return keys;
}

}  // namespace plimsoll
