#include "cli/command_line.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/printable.h"
#include "cli/parse_errors.h"
#include "strategy/field_help.h"

namespace plimsoll {
namespace {

constexpr const char* kAbout =
    "Where does every byte of an LLM training step go, does it fit, and what should change?";
constexpr const char* kFooter =
    "\nFor example:\n"
    "  plimsoll estimate llama-3.1-8b --gpu h100-80gb --gpus 8\n"
    "  plimsoll explain llama-3.1-8b --gpu h100-80gb --gpus 8 --recompute full\n"
    "\nExit codes: 0 answered, 2 the input is wrong, 1 our fault, 3 the verdict of --fail-on.";

void add_argument(CLI::App& app, const Argument& argument) {
  CLI::Option* option = nullptr;
  if (auto* const* flag = std::get_if<bool*>(&argument.target))
    option = app.add_flag(argument.name, **flag, argument.help);
  if (auto* const* text = std::get_if<std::optional<std::string>*>(&argument.target))
    option = app.add_option_function<std::string>(
        argument.name, [target = *text](const std::string& value) { *target = value; }, argument.help);
  if (auto* const* list = std::get_if<std::vector<std::string>*>(&argument.target)) {
    option = app.add_option(argument.name, **list, argument.help);
    if (argument.name.starts_with("-")) option->expected(1)->allow_extra_args(false)->take_all();
  }
  option->type_name(argument.value);
}

CLI::App* add_command(CLI::App& app, Command& command) {
  CLI::App* sub = app.add_subcommand(std::string(command.name()), std::string(command.summary()));
  for (const Argument& argument : command.arguments()) add_argument(*sub, argument);
  sub->footer(command.details());
  return sub;
}

// `plimsoll help`, `help COMMAND`, `help job [SECTION or FIELD]`.
struct Help {
  CLI::App* app = nullptr;
  std::string topic, section;

  explicit Help(CLI::App& parent)
      : app(parent.add_subcommand("help", "Explains a command, or the job file's fields")) {
    app->add_option("TOPIC", topic, "a command, or `job`")->type_name("");
    app->add_option("SECTION", section,
                    "with job: a section such as batch, or a field such as batch.sequence")
        ->type_name("");
    app->footer("");
  }

  Result<std::string> text(const CLI::App& parent, const std::vector<CLI::App*>& commands) const {
    if (topic == "job") return job_fields_text(section);
    if (!section.empty()) return fail({.message = fmt::format("help on {} has no sections", topic)});
    // help() would hand on to the command that was parsed: this one.
    if (topic.empty())
      return parent.get_formatter()->make_help(&parent, parent.get_name(), CLI::AppFormatMode::Normal);
    std::vector<std::string> names;
    for (CLI::App* command : commands) {
      if (command->get_name() == topic) return command->help("plimsoll");
      names.push_back(command->get_name());
    }
    return fail({.message = fmt::format("no command is called \"{}\"", topic),
                 .expected = fmt::format("job, or one of {}", fmt::join(names, ", "))});
  }
};

int report(const Error& error) {
  print_error(error);
  return exit_code_of(error);
}

KnownCommand known(const CLI::App& command) {
  KnownCommand result{.name = command.get_name()};
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) result.options.push_back("--" + name);
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_snames()) result.options.push_back("-" + name);
  return result;
}

Error parse_error(const CLI::ParseError& error, const std::vector<std::string>& arguments,
                  const std::vector<CLI::App*>& subs, const CLI::App* help) {
  std::string text = error.what();
  if (const size_t more = text.find(": At Most 1 required"); more != std::string::npos)
    return {.message = text.substr(0, more) + " is given more than once", .expected = "once"};
  if (const size_t missing = text.find(": 1 required"); missing != std::string::npos)
    return {.message = text.substr(0, missing) + " is given without a value"};
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return {.message = text};
  std::vector<KnownCommand> commands;
  for (const CLI::App* sub : subs) commands.push_back(known(*sub));
  commands.push_back(known(*help));
  return unexpected_arguments(arguments, commands, text);
}

int run_within_memory(Command& command) {
  try {
    const Result<int> code = command.run();
    return code ? *code : report(code.error());
  } catch (const std::bad_alloc&) {
    return report({.message = fmt::format("the host has no memory left for {}", command.subject()),
                   .is_internal = true});
  }
}

int parse_and_run(int argc, const char* const* argv, std::vector<std::unique_ptr<Command>>& commands) {
  CLI::App app{kAbout, "plimsoll"};
  app.footer(kFooter);
  app.set_version_flag("--version", "plimsoll " PLIMSOLL_VERSION);
  app.require_subcommand(0, 1);
  std::vector<CLI::App*> subs;
  for (auto& command : commands) subs.push_back(add_command(app, *command));
  const Help help(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const bool is_answer = e.get_exit_code() == 0;  // --help, --version
    if (is_answer) return app.exit(e);
    return report(parse_error(e, {argv + 1, argv + argc}, subs, help.app));
  }
  for (size_t i = 0; i < subs.size(); ++i) {
    if (!subs[i]->parsed()) continue;
    return run_within_memory(*commands[i]);
  }
  const Result<std::string> text = help.text(app, subs);
  if (!text) return report(text.error());
  std::fputs(text->c_str(), stdout);
  return kAnswered;
}

// A closed standard stream would give its number to the next file that is opened, and the answer would go
// into that file. Open for reading, it makes writing fail instead.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) == -1) (void)open("/dev/null", O_RDONLY);
}

bool is_lost(std::FILE* stream) { return std::fflush(stream) != 0 || std::ferror(stream) != 0; }

// The code, unless the answer did not get out: to standard error it goes where standard output takes a file.
int after_output(int code) {
  const auto lost = [](const char* where) {
    return report(
        {.position = {.file = where}, .message = std::string("can't be written: ") + std::strerror(errno)});
  };
  if (is_lost(stdout)) return lost("standard output");
  const bool is_answered = code == kAnswered || code == kVerdictFailed;
  if (is_answered && is_lost(stderr)) return lost("standard error");
  return code;
}

}  // namespace

void print_error(const Error& error) {
  std::fputs(fmt::format("plimsoll: {}\n", error.to_text()).c_str(), stderr);
}

int exit_code_of(const Error& error) { return error.is_internal ? kOurFault : kWrongInput; }

void print_answer(const std::string& text, bool is_json, std::FILE* stream) {
  std::fputs(is_json ? text.c_str() : printable(text).c_str(), stream);
}

int run_command_line(int argc, const char* const* argv, std::vector<std::unique_ptr<Command>> commands) {
  keep_standard_streams();
  try {
    return after_output(parse_and_run(argc, argv, commands));
  } catch (const std::bad_alloc&) {
    std::fputs("plimsoll: the host has no memory left\n", stderr);
  } catch (const std::exception& e) {
    std::fputs(fmt::format("plimsoll: internal error: {}\n", e.what()).c_str(), stderr);
  }
  return kOurFault;
}

}  // namespace plimsoll
