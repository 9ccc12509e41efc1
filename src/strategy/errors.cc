#include "strategy/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string>

namespace plimsoll {
namespace {

constexpr size_t kMostShown = 20;

std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

}  // namespace

Error combined(std::vector<Error> errors, std::string_view what) {
  assert(!errors.empty());
  if (errors.size() == 1) return std::move(errors.front());
  Error all{.position = {.file = errors.front().position.file},
            .message = fmt::format("{} {}", errors.size(), what)};
  const size_t shown = std::min(errors.size(), kMostShown);
  for (size_t i = 0; i < shown; ++i)
    all.message += fmt::format("\n  {}. {}", i + 1, indented(errors[i].to_text()));
  if (shown < errors.size()) all.message += fmt::format("\n  and {} more", errors.size() - shown);
  all.is_internal = std::ranges::any_of(errors, &Error::is_internal);
  return all;
}

}  // namespace plimsoll
