#include "cli/parse_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "hardware/name_match.h"

namespace plimsoll {
namespace {

bool is_option(const std::string& argument) { return argument.starts_with('-') && argument.size() > 1; }

std::string did_you_mean(const std::vector<std::string>& near) {
  return near.empty() ? "" : fmt::format("did you mean {}?", fmt::join(near, " or "));
}

// Compared without the hyphens that every option begins with.
std::string meant_option(const std::string& word, const std::vector<std::string>& options) {
  std::vector<std::string> bare;
  for (const std::string& option : options) bare.push_back(option.substr(option.find_first_not_of('-')));
  const size_t first = word.find_first_not_of('-');
  const std::string wanted = first == std::string::npos ? "" : normalized_name(word.substr(first));
  std::vector<std::string> near;
  for (const std::string& name : close_matches(wanted, bare)) near.push_back("--" + name);
  return did_you_mean(near);
}

Error no_command(const std::string& word, const std::vector<KnownCommand>& commands) {
  std::vector<std::string> names;
  for (const KnownCommand& command : commands) names.push_back(command.name);
  return {.message = fmt::format("no command is called \"{}\"", word),
          .expected = fmt::format("one of {}", fmt::join(names, ", ")),
          .hint = did_you_mean(close_matches(normalized_name(word), names))};
}

}  // namespace

Error unexpected_arguments(const std::vector<std::string>& arguments,
                           const std::vector<KnownCommand>& commands, const std::string& reason) {
  const auto word = std::ranges::find_if_not(arguments, is_option);
  if (word == arguments.end()) return {.message = reason, .expected = "a command", .hint = "plimsoll --help"};
  const auto command = std::ranges::find(commands, *word, &KnownCommand::name);
  if (command == commands.end()) return no_command(*word, commands);
  const std::string help = fmt::format("`plimsoll help {}` lists the options", command->name);
  for (auto a = std::next(word); a != arguments.end(); ++a) {
    const std::string option = a->substr(0, a->find('='));
    if (!is_option(option) || std::ranges::find(command->options, option) != command->options.end()) continue;
    const std::string near = meant_option(option, command->options);
    return {.message = fmt::format("{} has no option {}", command->name, option),
            .hint = near.empty() ? help : fmt::format("{} {}", near, help)};
  }
  return {.message = reason, .hint = help};
}

}  // namespace plimsoll
