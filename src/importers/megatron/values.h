// Reads the values of Megatron-LM's arguments; the first error is kept, and which arguments were asked for.
//
//   MegatronValues values(arguments);
//   values.integer("--num-layers");   // empty where it isn't given, or is no such number: then error() is
//   set
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/result.h"
#include "importers/megatron/arguments.h"

namespace plimsoll {

class MegatronValues {
 public:
  explicit MegatronValues(const MegatronArguments& arguments) : in_(arguments) {}

  const MegatronArgument* take(std::string_view name);
  bool flag(std::string_view name) { return take(name) != nullptr; }
  std::optional<int64_t> integer(std::string_view name, int64_t least = 1);
  std::optional<double> number(std::string_view name);
  std::optional<int64_t> required(std::string_view name);
  // One of the words, by what it stands for; `otherwise` where the argument isn't given.
  template <typename T>
  T word(std::string_view name, T otherwise, std::initializer_list<std::pair<std::string_view, T>> words) {
    const MegatronArgument* const argument = take(name);
    if (!argument) return otherwise;
    const std::string text = argument->values.empty() ? "" : argument->values.front();
    std::vector<std::string_view> names;
    for (const auto& [known, value] : words) {
      if (known == text) return value;
      names.push_back(known);
    }
    wrong(*argument, fmt::format("\"{}\" is not supported", text), fmt::format("{}", fmt::join(names, ", ")));
    return otherwise;
  }
  void wrong(const MegatronArgument& argument, std::string message, std::string expected);

 protected:
  const MegatronArguments& in_;
  std::set<std::string, std::less<>> taken_;
  std::optional<Error> error_;
};

}  // namespace plimsoll
