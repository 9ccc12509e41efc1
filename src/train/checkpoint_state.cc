#include "train/checkpoint_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/read_file.h"
#include "base/units.h"
#include "strategy/limits.h"
#include "train/checksum.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormatName = "plimsoll.checkpoint/";
constexpr int kFormat = 2, kOldestFormat = 1;
constexpr std::string_view kChecksumLine = "  \"checksum\": \"";
constexpr size_t kMostBytes = size_t{16} << 20;

// Takes typed members out of the object; the first that is missing or of another type is kept as the error.
class Members {
 public:
  Members(const Json& object, const std::string& file) : object_(object), file_(file) {}

  void take(const char* key, int64_t& to, int64_t least = 0) {
    const Json* const value = find(key, "an integer", [](const Json& v) { return v.is_number_integer(); });
    if (value == nullptr) return;
    const bool is_in_range =
        !value->is_number_unsigned() || value->get<uint64_t>() <= std::numeric_limits<int64_t>::max();
    if (!is_in_range || value->get<int64_t>() < least)
      return refuse(key, fmt::format("is {}", value->dump()), fmt::format("an integer from {} on", least));
    to = value->get<int64_t>();
  }
  void take(const char* key, double& to) {
    if (const Json* const value = find(key, "a number", [](const Json& v) { return v.is_number(); }))
      to = value->get<double>();
  }
  void take(const char* key, std::string& to) {
    if (const Json* const value = find(key, "a string", [](const Json& v) { return v.is_string(); }))
      to = value->get<std::string>();
  }
  void take(const char* key, std::vector<std::string>& to) {
    const auto is_names = [](const Json& v) {
      return v.is_array() && std::ranges::all_of(v, [](const Json& e) { return e.is_string(); });
    };
    if (const Json* const value = find(key, "a list of strings", is_names))
      to = value->get<std::vector<std::string>>();
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  template <typename IsRight>
  const Json* find(const char* key, const char* expected, IsRight&& is_right) {
    const auto found = object_.find(key);
    if (found != object_.end() && is_right(*found)) return &*found;
    refuse(key, found == object_.end() ? "is missing" : fmt::format("is {}", found->dump()), expected);
    return nullptr;
  }
  void refuse(const char* key, std::string message, std::string expected) {
    if (error_) return;
    error_ = {.position = {.file = file_, .key = key},
              .message = std::move(message),
              .expected = std::move(expected)};
  }

  const Json& object_;
  const std::string& file_;
  std::optional<Error> error_;
};

Result<int> format_number(const std::string& format, const std::string& file) {
  const auto refuse = [&](std::string hint) {
    return fail({.position = {.file = file, .key = "format"},
                 .message = fmt::format("is \"{}\"", format),
                 .expected = fmt::format("{}{}", kFormatName, kFormat),
                 .hint = std::move(hint)});
  };
  if (!format.starts_with(kFormatName)) return refuse("");
  const std::string_view number = std::string_view(format).substr(kFormatName.size());
  int version = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), version);
  if (problem != std::errc() || end != number.data() + number.size()) return refuse("");
  if (version > kFormat) return refuse("a newer version of Plimsoll wrote it");
  if (version < kOldestFormat) return refuse("");
  return version;
}

// Of the bytes before the last member's line.
Result<void> check_checksum(std::string_view text, const std::string& file) {
  const size_t line = text.rfind(kChecksumLine);
  const auto refuse = [&](const char* message) {
    return fail({.position = {.file = file, .key = "checksum"},
                 .message = message,
                 .expected = "the bytes that were written"});
  };
  if (line == std::string_view::npos) return refuse("is missing");
  const std::string sum = checksum_text(checksum(std::as_bytes(std::span(text.substr(0, line)))));
  if (text.substr(line + kChecksumLine.size()) == sum + "\"\n}\n") return {};
  return refuse("is another one than that of the file, which isn't what was saved");
}

// A step takes at least one sequence and at most the largest batch that a job can have.
Result<void> check_numbers(const CheckpointState& s, const std::string& file) {
  const auto refuse = [&](const char* key, int64_t value, std::string expected) {
    return fail({.position = {.file = file, .key = key},
                 .message = fmt::format("is {}", value),
                 .expected = std::move(expected)});
  };
  if (s.step > kMaxSteps) return refuse("step", s.step, fmt::format("at most {}", kMaxSteps));
  if (s.samples < s.step || s.samples / s.step > kMaxGlobalBatch)
    return refuse("samples", s.samples,
                  fmt::format("what {} steps can have seen, such as {} of batches of {}", s.step,
                              saturating_multiply(s.step, s.global_batch), s.global_batch));
  return {};
}

}  // namespace

std::string checkpoint_state_text(const CheckpointState& s) {
  const Json json{{"format", fmt::format("{}{}", kFormatName, kFormat)},
                  {"step", s.step},
                  {"samples", s.samples},
                  {"data_fingerprint", s.data_fingerprint},
                  {"seed", s.seed},
                  {"global_batch", s.global_batch},
                  {"parameters", s.parameters},
                  {"optimizer", s.optimizer},
                  {"states", s.states},
                  {"ranks", s.ranks},
                  {"zero_stage", s.zero_stage},
                  {"precision", s.precision},
                  {"loss", s.loss},
                  {"job", s.job},
                  {"config_checksum", s.config_checksum}};
  constexpr int kIndent = 2;
  std::string text = json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
  text.replace(text.rfind('\n'), std::string::npos, ",\n");  // instead of the closing brace
  const std::string sum = checksum_text(checksum(std::as_bytes(std::span(text))));
  return text + std::string(kChecksumLine) + sum + "\"\n}\n";
}

Result<CheckpointState> parse_checkpoint_state(std::string_view text, const std::string& file) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return fail({.position = {.file = file},
                 .message = json.is_discarded() ? "isn't JSON" : "isn't a JSON object",
                 .expected = "the state of a checkpoint (docs/checkpoints.md)"});
  Members members(json, file);
  std::string format;
  members.take("format", format);
  if (members.error()) return fail(*members.error());
  PLIMSOLL_TRY(number, format_number(format, file));
  CheckpointState s;
  s.format = number;
  if (s.has_checksums()) PLIMSOLL_CHECK(check_checksum(text, file));
  members.take("step", s.step, 1);
  members.take("samples", s.samples);
  members.take("data_fingerprint", s.data_fingerprint);
  members.take("seed", s.seed);
  members.take("global_batch", s.global_batch, 1);
  members.take("parameters", s.parameters, 1);
  members.take("optimizer", s.optimizer);
  members.take("states", s.states);
  members.take("ranks", s.ranks, 1);
  members.take("zero_stage", s.zero_stage);
  members.take("precision", s.precision);
  members.take("loss", s.loss);
  members.take("job", s.job);
  if (s.has_checksums()) members.take("config_checksum", s.config_checksum);
  if (members.error()) return fail(*members.error());
  PLIMSOLL_CHECK(check_numbers(s, file));
  return s;
}

Result<CheckpointState> read_checkpoint_state(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kStateFile;
  PLIMSOLL_TRY(text, read_file(file, {.most_bytes = kMostBytes, .expected = "the state of a checkpoint"}));
  return parse_checkpoint_state(text, file.string());
}

}  // namespace plimsoll
