#include "importers/hf_config/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/units.h"

namespace plimsoll {
namespace {

// A pointer that tells how far the parser has read.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at;
  size_t* consumed;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    ++*consumed;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

// Lines and columns of offsets that only grow.
class LineCounter {
 public:
  explicit LineCounter(std::string_view text) : text_(text) {}

  // REQUIRES offset isn't below the last one.
  std::pair<int, int> place_of(size_t offset) {
    offset = std::min(offset, text_.size());
    for (; at_ < offset; ++at_) {
      if (text_[at_] != '\n') continue;
      ++line_;
      line_start_ = at_ + 1;
    }
    return {line_, static_cast<int>(offset - line_start_) + 1};
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_ = 1;
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." from "syntax error"
// on.
std::string reason_of(std::string what) {
  const size_t bracket = what.find("] ");
  if (bracket != std::string::npos) what = what.substr(bracket + 2);
  for (char& c : what) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';  // perhaps no UTF-8
  }
  const size_t colon = what.find(": ");
  return what.starts_with("parse error at line") && colon != std::string::npos ? what.substr(colon + 2)
                                                                               : what;
}

// Builds the tree; the parser calls it in the text's order. Returning false stops the parser.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, std::string file, std::string_view expected)
      : text_(text), file_(std::move(file)), expected_(expected), lines_(text) {}

  size_t consumed = 0;  // characters that the parser has read
  ConfigValue root;
  std::optional<Error> error;

  bool null() override { return put({}) != nullptr; }
  bool boolean(bool value) override { return put({value}) != nullptr; }
  bool number_integer(number_integer_t value) override { return put({int64_t{value}}) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override {
    const auto largest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return put({static_cast<int64_t>(std::min<uint64_t>(value, largest))}) != nullptr;
  }
  bool number_float(number_float_t value, const string_t&) override { return put({value}) != nullptr; }
  bool string(string_t& value) override { return put({std::move(value)}) != nullptr; }
  bool binary(binary_t&) override { return refuse(consumed, "holds binary data", ""); }
  bool start_object(std::size_t) override { return open({ConfigValue::Object{}}); }
  bool start_array(std::size_t) override { return open({ConfigValue::List{}}); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool end_object() override {
    const bool is_fine = check_duplicates(*open_.back()->as<ConfigValue::Object>());
    open_.pop_back();
    return is_fine;
  }

  bool key(string_t& name) override {
    auto& object = std::get<ConfigValue::Object>(open_.back()->value);
    const auto [line, column] = lines_.place_of(start_of_key(name));
    object.push_back({.key = std::move(name), .value = {}, .line = line, .column = column});
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& problem) override {
    if (position > text_.size()) return refuse(text_.size(), "ends in the middle", "a complete JSON object");
    return refuse(position == 0 ? 0 : position - 1, "isn't JSON: " + reason_of(problem.what()),
                  "strict JSON: no comments, no trailing commas, no NaN or Infinity");
  }

 private:
  // The next value goes into the innermost open list, or under the last key of the innermost open object.
  ConfigValue* put(ConfigValue value) {
    if (++values_ > kMaxConfigValues) {
      refuse(consumed, fmt::format("holds more than {} values", kMaxConfigValues), std::string(expected_));
      return nullptr;
    }
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (auto* list = std::get_if<ConfigValue::List>(&open_.back()->value)) {
      return &list->emplace_back(std::move(value));
    }
    ConfigValue& place = std::get<ConfigValue::Object>(open_.back()->value).back().value;
    place = std::move(value);
    return &place;
  }

  bool open(ConfigValue value) {
    if (open_.size() >= kMaxConfigDepth) {
      return refuse(consumed, fmt::format("is nested deeper than {} levels", kMaxConfigDepth),
                    std::string(expected_));
    }
    ConfigValue* placed = put(std::move(value));
    if (placed != nullptr) open_.push_back(placed);
    return placed != nullptr;
  }

  size_t start_of_key(const std::string& name) const {
    const size_t length = name.size() + 2;
    const size_t plain = consumed >= length ? consumed - length : 0;
    return text_[plain] == '"' ? plain : consumed - 1;  // an escape makes the text longer than the name
  }

  bool check_duplicates(const ConfigValue::Object& object) {
    std::vector<size_t> order(object.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return std::tie(object[a].key, a) < std::tie(object[b].key, b); });
    for (size_t i = 1; i < order.size(); ++i) {
      const ConfigMember& first = object[order[i - 1]];
      const ConfigMember& second = object[order[i]];
      if (first.key != second.key) continue;
      error = Error{.position = {.file = file_,
                                 .key = shown_text(second.key),
                                 .line = second.line,
                                 .column = second.column},
                    .message = fmt::format("is there twice, first in line {}", first.line),
                    .expected = "every key once",
                    .hint = "remove the one that isn't meant"};
      return false;
    }
    return true;
  }

  bool refuse(size_t offset, std::string message, std::string expected) {
    const auto [line, column] = lines_.place_of(offset);
    error = Error{.position = {.file = file_, .key = "", .line = line, .column = column},
                  .message = std::move(message),
                  .expected = std::move(expected)};
    return false;
  }

  std::string_view text_;
  std::string file_;
  std::string_view expected_;
  LineCounter lines_;
  std::vector<ConfigValue*>
      open_;  // innermost last; each is the last child of the one before, so it stays put
  size_t values_ = 0;
};

}  // namespace

Result<ConfigValue::Object> parse_json_object(std::string_view text, const std::string& file,
                                              std::string_view expected) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return fail({.position = {.file = file}, .message = "is empty", .expected = "a JSON object"});
  }
  if (text.size() > kMaxConfigBytes) {
    return fail(
        {.position = {.file = file},
         .message = fmt::format("is {} bytes long", with_thousands(static_cast<int64_t>(text.size()))),
         .expected = fmt::format("{}, at most 16 MiB", expected)});
  }
  // The parser takes it for the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    const auto [line, column] = LineCounter(text).place_of(zero);
    return fail({.position = {.file = file, .key = "", .line = line, .column = column},
                 .message = "has a byte of value 0",
                 .expected = "a JSON object as text"});
  }
  TreeBuilder builder(text, file, expected);
  const CountingIterator begin{text.data(), &builder.consumed};
  const CountingIterator end{text.data() + text.size(), &builder.consumed};
  nlohmann::json::sax_parse(begin, end, &builder);
  if (builder.error) return fail(*builder.error);
  auto* object = std::get_if<ConfigValue::Object>(&builder.root.value);
  if (object == nullptr) {
    return fail({.position = {.file = file, .key = "", .line = 1, .column = 1},
                 .message = "isn't a JSON object",
                 .expected = "{ \"model_type\": ... }"});
  }
  return std::move(*object);
}

}  // namespace plimsoll
