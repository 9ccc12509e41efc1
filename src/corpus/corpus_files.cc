#include "corpus/corpus_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpectedFile = "a file of text, JSON lines or tokens";

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool has_ending(const fs::path& path, const std::vector<std::string>& endings) {
  const std::string name = path.filename().string();
  return endings.empty() || std::any_of(endings.begin(), endings.end(),
                                        [&](const auto& ending) { return name.ends_with(ending); });
}

// token_file.bin.json beside token_file.bin
bool is_sidecar(const fs::path& path) {
  std::error_code problem;
  return path.extension() == ".json" && path.stem().extension() == ".bin" &&
         fs::exists(fs::path(path).replace_extension(), problem);
}

CorpusFormat format_of(const fs::path& path) {
  const fs::path ending = path.extension();
  if (ending == ".jsonl" || ending == ".ndjson") return CorpusFormat::kJsonLines;
  return ending == ".bin" ? CorpusFormat::kTokens : CorpusFormat::kText;
}

Result<std::vector<fs::path>> files_below(const fs::path& folder, const CorpusOptions& options) {
  std::vector<fs::path> found;
  std::error_code problem;
  fs::recursive_directory_iterator entry(folder, problem);
  for (; !problem && entry != fs::recursive_directory_iterator(); entry.increment(problem)) {
    const fs::path& path = entry->path();
    std::error_code unknown;
    if (is_hidden(path)) {
      entry.disable_recursion_pending();
    } else if (has_ending(path, options.endings) && entry->is_regular_file(unknown) && !is_sidecar(path)) {
      found.push_back(path);
    }
  }
  if (problem)
    return fail({.position = {.file = folder.string()},
                 .message = fmt::format("can't be read: {}", problem.message()),
                 .expected = "a folder of files"});
  std::sort(found.begin(), found.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return found;
}

Result<void> add_file(const fs::path& path, bool may_be_empty, std::vector<CorpusFile>& files) {
  PLIMSOLL_TRY(file, InputFile::open(path, kExpectedFile));
  if (file.size() == 0 && may_be_empty) return {};
  if (file.size() == 0)
    return fail({.position = {.file = path.string()}, .message = "is empty", .expected = kExpectedFile});
  files.push_back({.path = path, .stamp = file.stamp()});
  return {};
}

// With links followed; both exist.
bool is_at_or_below(const fs::path& path, const fs::path& top) {
  std::error_code problem;
  const fs::path inner = fs::canonical(path, problem), outer = fs::canonical(top, problem);
  return !problem &&
         std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

std::string named(const std::vector<fs::path>& paths) {
  return paths.empty() ? "the corpus" : paths.front().string();
}

}  // namespace

Result<CorpusFiles> find_corpus_files(const CorpusOptions& options) {
  CorpusFiles found;
  for (const fs::path& path : options.paths) {
    std::error_code problem;
    if (!fs::is_directory(path, problem)) {
      PLIMSOLL_CHECK(add_file(path, false, found.files));
      continue;
    }
    PLIMSOLL_TRY(below, files_below(path, options));
    for (const fs::path& file : below) PLIMSOLL_CHECK(add_file(file, true, found.files));
  }
  if (!options.left_out.empty())
    std::erase_if(found.files,
                  [&](const CorpusFile& file) { return is_at_or_below(file.path, options.left_out); });
  if (found.files.empty())
    return fail({.position = {.file = named(options.paths)},
                 .message = options.left_out.empty()
                                ? "has no files to train on"
                                : fmt::format("has no files to train on but {}, which is left out",
                                              options.left_out.string()),
                 .expected = kExpectedFile});
  found.format = options.format.value_or(format_of(found.files.front().path));
  for (const CorpusFile& file : found.files)
    if (!options.format && format_of(file.path) != found.format)
      return fail({.position = {.file = file.path.string()},
                   .message = fmt::format("is of another format than {}", found.files.front().path.string()),
                   .expected = "files of one format",
                   .hint = "data.format says which format they are of, data.endings which of them to take"});
  return found;
}

Result<InputFile> open_unchanged(const CorpusFile& file) {
  PLIMSOLL_TRY(opened, InputFile::open(file.path, kExpectedFile));
  if (opened.stamp() == file.stamp) return opened;
  return fail({.position = {.file = file.path.string()},
               .message = "isn't the file that it was when training began",
               .expected = "files that stay as they are while they are trained on"});
}

size_t file_of_token(const std::vector<int64_t>& starts, int64_t first) {
  return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), first) - starts.begin()) - 1;
}

}  // namespace plimsoll
