#include "base/json_events.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace plimsoll {
namespace {

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." from "syntax error"
// on.
std::string reason_of(std::string what) {
  if (const size_t bracket = what.find("] "); bracket != std::string::npos) what = what.substr(bracket + 2);
  const size_t colon = what.find(": ");
  return what.starts_with("parse error at") && colon != std::string::npos ? what.substr(colon + 2) : what;
}

class EventAdapter : public nlohmann::json_sax<nlohmann::json> {
 public:
  EventAdapter(const JsonOptions& options, JsonHandler& handler) : options_(options), handler_(handler) {}

  std::optional<Error> error;

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override { return put(uint64_t{value}); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return refuse({"holds binary data", "JSON as text"}); }
  bool start_object(std::size_t) override { return open(JsonContainer::kObject); }
  bool start_array(std::size_t) override { return open(JsonContainer::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    const bool is_new = open_.back().keys.insert(name).second;
    path_.back() = std::move(name);
    return is_new || refuse({"is there twice", "every key once"});
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& problem) override {
    error = Error{.position = {.file = options_.file,
                               .key = "",
                               .line = std::nullopt,
                               .column = std::nullopt,
                               .byte = options_.first_byte + (position == 0 ? 0 : position - 1)},
                  .message = "isn't JSON: " + reason_of(problem.what()),
                  .expected = "strict JSON in UTF-8"};
    return false;
  }

 private:
  struct Open {
    JsonContainer container;
    std::unordered_set<std::string> keys;
  };

  // A list's values are counted as they come; an object's have a key.
  void step_in_list() {
    if (open_.empty() || open_.back().container != JsonContainer::kList) return;
    ++std::get<size_t>(path_.back());
  }
  bool put(JsonScalar value) {
    step_in_list();
    return take(handler_.scalar(path_, value));
  }
  bool open(JsonContainer container) {
    step_in_list();
    if (open_.size() >= options_.deepest)
      return refuse({fmt::format("is nested deeper than {} levels", options_.deepest), ""});
    if (!take(handler_.begin(path_, container))) return false;
    open_.push_back({container, {}});
    constexpr size_t kBeforeFirst = SIZE_MAX;
    path_.emplace_back(kBeforeFirst);
    return true;
  }
  bool close() {
    open_.pop_back();
    path_.pop_back();
    return take(handler_.end(path_));
  }
  bool take(std::optional<JsonRefusal> refusal) { return !refusal || refuse(std::move(*refusal)); }
  bool refuse(JsonRefusal refusal) {
    error = Error{.position = {.file = options_.file, .key = to_text(path_)},
                  .message = std::move(refusal.message),
                  .expected = std::move(refusal.expected)};
    return false;
  }

  const JsonOptions& options_;
  JsonHandler& handler_;
  std::vector<Open> open_;
  JsonPath path_;
};

}  // namespace

std::string to_text(const JsonPath& path) {
  std::string text;
  for (const JsonStep& step : path) {
    if (const auto* key = std::get_if<std::string>(&step))
      text += (text.empty() ? "" : ".") + *key;
    else
      text += fmt::format("[{}]", std::get<size_t>(step));
  }
  return text;
}

Result<void> read_json(std::string_view text, const JsonOptions& options, JsonHandler& handler) {
  // The parser takes it for the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    return fail({.position = {.file = options.file,
                              .key = "",
                              .line = std::nullopt,
                              .column = std::nullopt,
                              .byte = options.first_byte + zero},
                 .message = "has a byte of value 0",
                 .expected = "JSON as text"});
  EventAdapter adapter(options, handler);
  nlohmann::json::sax_parse(text, &adapter);
  if (adapter.error) return fail(std::move(*adapter.error));
  return {};
}

}  // namespace plimsoll
