#include "strategy/field_help.h"

#include <fmt/format.h>

#include <algorithm>

#include "strategy/field.h"

namespace plimsoll {
namespace {

constexpr size_t kTextWidth = 100;
constexpr std::string_view kOverridesHelp =
    "keys of the model's configuration to replace, each with its value; the text \"null\" is JSON's null";

std::string default_text(const Field& field) {
  if (!field.text.default_text.empty()) return std::string(field.text.default_text);
  const auto value = field.get(Job{});
  const std::string text = value ? to_plain_text(*value) : std::string();
  return text.empty() ? "none" : text;
}

// Breaks at blanks so that no line is wider than kTextWidth; every line begins with `indent`.
std::string wrapped(std::string_view text, std::string_view indent) {
  std::string result, line(indent);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (line.size() + word.size() >= kTextWidth && line.size() > indent.size()) {
      result += line + '\n';
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + std::string(word);
  }
  return result + line + '\n';
}

std::string field_text(const Field& field) {
  return fmt::format("{}\n{}{}{}", field.text.path, wrapped(field.text.help, "    "),
                     wrapped(field.expected(), "    "),
                     wrapped(fmt::format("default: {}", default_text(field)), "    "));
}

std::string overrides_text() {
  return fmt::format("{}.KEY\n{}", kOverridesPath, wrapped(kOverridesHelp, "    "));
}

std::string in_cell(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string field_row(const Field& field) {
  return fmt::format("| `{}` | {} | {} | {} |\n", field.key(), in_cell(field.text.help),
                     in_cell(field.expected()), in_cell(default_text(field)));
}

std::string section_heading(std::string_view section) {
  const std::string title = section.empty() ? "Before the first section" : fmt::format("[{}]", section);
  return fmt::format("\n## {}\n\n| field | meaning | value | default |\n| --- | --- | --- | --- |\n", title);
}

constexpr std::string_view kMarkdownHead = R"(# The job file

A job file says what is trained, on what, and how. It is TOML. Every field has a default, which is the framework's own; a report lists
the defaults it used as *assumed*. A key that is not below is an error, and so is a combination that contradicts itself or has no
effect: all such mistakes of a job are reported together.

```toml
precision = "fp32"

[model]
name = "llama-3.1-8b"

[hardware]
gpu = "h100-80gb"
gpus = 8

[batch]
sequence = 8192
global_batch = 64

[recompute]
mode = "full"
```

Any field can be set on the command line too, after the file: `--set batch.sequence=8192`. The word `default` resets a field, an empty
value a text: `--set batch.accumulation=default`. In names `-` and `_` mean the same, and so do capital and small letters. A file has at most 1 MiB.

This page is made from the table in `src/strategy/job_fields.cc` and checked by `field_help_test.cc`; `job_file.h` reads and writes job
files, `resolve.h` fills the defaults in and checks the whole.
)";

}  // namespace

Result<std::string> job_fields_text(std::string_view section_or_path) {
  const std::string_view wanted = section_or_path;
  std::string text;
  std::string_view last;
  for (const Field& field : job_fields()) {
    if (last == "model" && field.section() != last &&
        (wanted.empty() || wanted == last || wanted == kOverridesPath))
      text += overrides_text();
    last = field.section();
    if (wanted.empty() || field.section() == wanted || field.text.path == wanted) text += field_text(field);
  }
  if (text.empty()) return fail(unknown_field(wanted, {}));
  return text;
}

std::string job_fields_markdown() {
  std::string text(kMarkdownHead);
  std::string_view last = "\n";  // no section has this name
  for (const Field& field : job_fields()) {
    if (field.section() != last) {
      if (last == "model")
        text += fmt::format("| `overrides.KEY` | {} | any | none |\n", in_cell(kOverridesHelp));
      last = field.section();
      text += section_heading(last);
    }
    text += field_row(field);
  }
  return text;
}

}  // namespace plimsoll
