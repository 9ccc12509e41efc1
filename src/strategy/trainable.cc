#include "strategy/trainable.h"

#include <fmt/format.h>

#include "strategy/name_pattern.h"

namespace plimsoll {

Result<std::vector<bool>> trainable_parameters(std::string_view pattern, const Architecture& architecture) {
  const auto refuse = [](std::string message, std::string expected) {
    return fail({.position = {.key = "loop.trainable"},
                 .message = std::move(message),
                 .expected = std::move(expected)});
  };
  const Result<NamePattern> expression = NamePattern::parse(pattern);
  if (!expression) return refuse(expression.error().message, expression.error().expected);
  PatternEffort effort;
  std::vector<bool> trained;
  for (const ParameterTensor& tensor : architecture.parameters) {
    if (tensor.name.size() > NamePattern::kMaxNameBytes)
      return refuse(fmt::format("a parameter's name has {} bytes", tensor.name.size()),
                    fmt::format("names of at most {} bytes", NamePattern::kMaxNameBytes));
    trained.push_back(expression->is_in(tensor.name, effort));
    if (effort.is_spent())
      return refuse("takes too many steps to match",
                    "an expression with less nested within (?=...), (?!...) or repetitions");
  }
  return trained;
}

}  // namespace plimsoll
