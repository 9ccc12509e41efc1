#include "importers/megatron/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/read_file.h"

namespace plimsoll {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr const char* kExpected =
    "Megatron-LM arguments: one \"--name value\" a line, or YAML with MODEL_ARGS";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Up to " #", outside of quotes.
std::string_view without_comment(std::string_view line) {
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return line.substr(0, i);
    }
  }
  return line;
}

std::string_view unquoted(std::string_view text) {
  const bool is_quoted =
      text.size() >= 2 && (text.front() == '"' || text.front() == '\'') && text.back() == text.front();
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

// Words of a value; a list's brackets and commas are no part of them ("[0]*3+[1]*58" isn't one list).
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  text = unquoted(text);
  const bool is_list = text.starts_with('[') && text.find(']') == text.size() - 1;
  for (const char c : is_list ? text.substr(1, text.size() - 2) : text) {
    const bool separates = c == ' ' || c == '\t' || c == ',';
    if (!separates) word += c;
    if (separates && !word.empty()) words.push_back(std::exchange(word, {}));
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

class ArgumentReader {
 public:
  ArgumentReader(std::string_view text, const std::string& file) : text_(text) { out_.file = file; }

  Result<MegatronArguments> read() {
    while (!text_.empty()) {
      const size_t end = text_.find('\n');
      std::string_view line = text_.substr(0, end);
      text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
      ++line_;
      line = without_comment(line);
      if (!trimmed(line).empty()) PLIMSOLL_CHECK(read_line(line));
    }
    if (out_.all.empty())
      return fail({.position = {.file = out_.file}, .message = "has no arguments", .expected = kExpected});
    return std::move(out_);
  }

 private:
  Result<void> read_line(std::string_view line) {
    const std::string_view content = trimmed(line);
    const bool is_indented = line.front() == ' ' || line.front() == '\t';
    if (!is_indented && !content.starts_with("-")) return begin_section(content);
    if (section_.empty()) return add_of_command_line(content);
    return read_entry(content);
  }

  Result<void> begin_section(std::string_view content) {
    const size_t colon = content.find(':');
    if (colon == std::string_view::npos) return error("is no argument");
    section_ = std::string(content.substr(0, colon));
    is_arguments_ = section_ == "MODEL_ARGS";
    return {};
  }

  Result<void> read_entry(std::string_view content) {
    if (section_ == "BEFORE_SCRIPT" &&
        content.find("pip uninstall -y transformer_engine") != std::string_view::npos)
      out_.has_transformer_engine = false;
    const size_t colon = content.find(':');
    if (colon == std::string_view::npos || content.starts_with("- ")) return {};  // text of other sections
    const std::string name(trimmed(content.substr(0, colon)));
    const std::string_view value = trimmed(content.substr(colon + 1));
    if (section_ == "ENV_VARS") out_.environment[name] = std::string(unquoted(value));
    if (!is_arguments_ || !name.starts_with("-")) return {};
    if (value == "false") return {};
    return add(name, value == "true" ? std::vector<std::string>() : words_of(value));
  }

  Result<void> add_of_command_line(std::string_view content) {
    const size_t space = content.find_first_of(" \t=");
    std::string name(content.substr(0, space));
    if (space == std::string_view::npos) return add(std::move(name), {});
    return add(std::move(name), words_of(trimmed(content.substr(space + 1))));
  }

  Result<void> add(std::string name, std::vector<std::string> values) {
    if (const MegatronArgument* old = out_.find(name); old && old->values != values)
      return fail({.position = {.file = out_.file, .key = name, .line = line_},
                   .message = fmt::format("is given twice, in line {} with another value", old->line)});
    out_.all.push_back({.name = std::move(name), .values = std::move(values), .line = line_});
    return {};
  }

  Result<void> error(std::string message) const {
    return fail({.position = {.file = out_.file, .line = line_},
                 .message = std::move(message),
                 .expected = kExpected});
  }

  std::string_view text_;
  int line_ = 0;
  std::string section_;
  bool is_arguments_ = false;
  MegatronArguments out_;
};

}  // namespace

const MegatronArgument* MegatronArguments::find(std::string_view name) const {
  const auto found = std::ranges::find(all, name, &MegatronArgument::name);
  return found == all.end() ? nullptr : &*found;
}

bool sniff_megatron_arguments(std::string_view text) {
  return text.starts_with("--") || text.find("\nMODEL_ARGS:") != std::string_view::npos ||
         text.starts_with("MODEL_ARGS:") || text.find("\n--num-layers") != std::string_view::npos;
}

Result<MegatronArguments> read_megatron_arguments_text(std::string_view text, const std::string& file) {
  return ArgumentReader(text, file).read();
}

Result<MegatronArguments> read_megatron_arguments(const std::filesystem::path& path) {
  PLIMSOLL_TRY(text, read_file(path, {.most_bytes = kMostBytes, .expected = kExpected}));
  return read_megatron_arguments_text(text, path.string());
}

}  // namespace plimsoll
