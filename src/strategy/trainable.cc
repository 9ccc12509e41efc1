#include "strategy/trainable.h"

#include <fmt/format.h>

#include <regex>

namespace plimsoll {
namespace {

constexpr size_t kMaxPatternBytes = 256;

Error bad_pattern(std::string message) {
  return {.position = {.key = "loop.trainable"},
          .message = std::move(message),
          .expected = "a regular expression, for example q_proj|v_proj"};
}

// Without back references, libstdc++ can match breadth first: no pattern takes exponential time or deep
// recursion.
#ifdef __GLIBCXX__
constexpr auto kGrammar = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
constexpr auto kGrammar = std::regex::ECMAScript;
#endif

}  // namespace

Result<std::vector<bool>> trainable_parameters(std::string_view pattern, const Architecture& architecture) {
  if (pattern.size() > kMaxPatternBytes)
    return fail(bad_pattern(fmt::format("is longer than {} bytes", kMaxPatternBytes)));
  try {
    const std::regex expression(pattern.begin(), pattern.end(), kGrammar);
    std::vector<bool> trained;
    for (const ParameterTensor& tensor : architecture.parameters)
      trained.push_back(std::regex_search(tensor.name, expression));
    return trained;
  } catch (const std::regex_error& error) {
    return fail(bad_pattern(fmt::format("is not a regular expression: {}", error.what())));
  }
}

}  // namespace plimsoll
