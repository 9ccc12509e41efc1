#include "cli/validate_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/data_dir.h"
#include "base/list_folder.h"
#include "validation/accuracy.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKnownResiduals = "known_residuals.csv";  // rows that are known to be off, and why

class ValidateCommand final : public Command {
 public:
  std::string_view name() const override { return "validate"; }
  std::string_view summary() const override {
    return "Predicts what was measured and says how far it is off";
  }

  std::vector<Argument> arguments() override {
    return {
        {.name = "FILE",
         .help = "tables of measured rows (docs/measured_rows.md); those of validation/ when none is named",
         .target = &files_},
        {.name = "--json", .help = "the ledger as JSON (docs/json.md)", .target = &as_json_},
        {.name = "--phases", .help = "every phase of each row, not only the worst", .target = &shows_phases_},
        {.name = "--threads",
         .value = "N",
         .help = "rows compared at a time; otherwise as many as there are cores",
         .target = &threads_}};
  }

  Result<int> run() override {
    PLIMSOLL_TRY(threads, thread_count());
    PLIMSOLL_TRY(files, files_or_default());
    std::vector<ReferenceRow> rows;
    for (const fs::path& file : files) {
      PLIMSOLL_TRY(read, read_reference_rows(file));
      std::ranges::move(read, std::back_inserter(rows));
    }
    const Accuracy accuracy(
        compare_all(rows, threads, [&](size_t done) { show_progress(done, rows.size()); }));
    const std::string text = as_json_ ? accuracy.to_json() : accuracy.to_text(shows_phases_);
    print_answer(text, as_json_);
    return kAnswered;
  }

 private:
  Result<int> thread_count() const {
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    if (!threads_) return cores;
    constexpr int kMost = 1024;
    int count = 0;
    const auto [end, error] = std::from_chars(threads_->data(), threads_->data() + threads_->size(), count);
    if (error == std::errc() && end == threads_->data() + threads_->size() && count >= 1 && count <= kMost)
      return count;
    return fail({.position = {.file = "--threads"},
                 .message = fmt::format("\"{}\" is no number of threads", *threads_),
                 .expected = fmt::format("an integer from 1 to {}", kMost)});
  }

  Result<std::vector<fs::path>> files_or_default() const {
    if (!files_.empty()) return std::vector<fs::path>(files_.begin(), files_.end());
    const fs::path folder = data_dir().parent_path() / "validation";
    std::vector<fs::path> files;
    for (const fs::path& file : list_folder(folder))
      if (file.extension() == ".csv" && file.filename() != kKnownResiduals) files.push_back(file);
    if (files.empty())
      return fail({.position = {.file = folder.string()},
                   .message = "no table of measured rows is there",
                   .expected = "files that end in .csv, or a FILE on the command line"});
    return files;
  }

  static void show_progress(size_t done, size_t rows) {
    if (isatty(STDERR_FILENO) == 0) return;
    std::fputs(done == rows ? "\r\033[K" : fmt::format("\r\033[Kplimsoll: {} of {} rows", done, rows).c_str(),
               stderr);
    std::fflush(stderr);
  }

  std::vector<std::string> files_;
  bool as_json_ = false, shows_phases_ = false;
  std::optional<std::string> threads_;
};

}  // namespace

std::unique_ptr<Command> make_validate_command() { return std::make_unique<ValidateCommand>(); }

}  // namespace plimsoll
