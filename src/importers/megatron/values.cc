#include "importers/megatron/values.h"

#include <charconv>

namespace plimsoll {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

template <typename T>
std::optional<T> parsed(const MegatronArgument& argument) {
  const std::string text = argument.values.empty() ? "" : argument.values.front();
  T value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}
std::string text_of(const MegatronArgument& argument) {
  return argument.values.empty() ? "" : argument.values.front();
}

}  // namespace

const MegatronArgument* MegatronValues::take(std::string_view name) {
  taken_.insert(std::string(name));
  return in_.find(name);
}

void MegatronValues::wrong(const MegatronArgument& argument, std::string message, std::string expected) {
  if (!error_)
    error_ = Error{.position = {.file = in_.file, .key = argument.name, .line = argument.line},
                   .message = std::move(message),
                   .expected = std::move(expected)};
}

std::optional<int64_t> MegatronValues::integer(std::string_view name, int64_t least) {
  const MegatronArgument* const argument = take(name);
  if (!argument) return std::nullopt;
  if (const auto value = parsed<int64_t>(*argument); value && *value >= least && *value <= kMost)
    return value;
  wrong(*argument, fmt::format("\"{}\" is no such number", text_of(*argument)),
        fmt::format("an integer from {}", least));
  return std::nullopt;
}

std::optional<double> MegatronValues::number(std::string_view name) {
  const MegatronArgument* const argument = take(name);
  if (!argument) return std::nullopt;
  if (const auto value = parsed<double>(*argument)) return value;
  wrong(*argument, fmt::format("\"{}\" is no number", text_of(*argument)), "a number");
  return std::nullopt;
}

std::optional<int64_t> MegatronValues::required(std::string_view name) {
  const auto value = integer(name);
  if (!value && !error_ && !in_.find(name))
    error_ = Error{.position = {.file = in_.file, .key = std::string(name)}, .message = "is not given"};
  return value;
}

}  // namespace plimsoll
