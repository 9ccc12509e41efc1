// One subcommand of the program: its arguments and what it does. Commands know nothing of the library that
// parses the command line (command_line.cc does).
//
//   class GpusCommand final : public Command {
//     std::vector<Argument> arguments() override {
//       return {{.name = "--json", .help = "as JSON", .target = &as_json_}};
//     }
//     Result<int> run() override;
//     bool as_json_ = false;
//   };
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace plimsoll {

inline constexpr int kAnswered = 0;
inline constexpr int kOurFault = 1;
inline constexpr int kWrongInput = 2;
inline constexpr int kVerdictFailed = 3;  // --fail-on

struct Argument {
  std::string name;   // "--gpu", or "MODEL" for one that goes by its position
  std::string value;  // what stands for the value in the help: "NAME"; switches have none
  std::string help;
  // Where the value goes; a list takes the argument more than once. It belongs to the command.
  std::variant<bool*, std::optional<std::string>*, std::vector<std::string>*> target;
};

// A page for a person is made printable, since it quotes files and arguments; JSON goes out as it is.
void print_answer(const std::string& text, bool is_json, std::FILE* stream = stdout);

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;  // one line
  virtual std::string details() const { return {}; }
  virtual std::vector<Argument> arguments() = 0;
  // What takes memory, where the host has too little.
  virtual std::string subject() const { return "this job's program"; }
  virtual Result<int> run() = 0;  // the exit code; an error is printed by the caller
};

}  // namespace plimsoll
