#include "base/read_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace plimsoll {

std::string shown_path(const std::filesystem::path& path) { return path.empty() ? "\"\"" : path.string(); }

Result<std::string> read_file(const std::filesystem::path& path, const ReadFileOptions& options) {
  const auto refuse = [&](std::string message) {
    return fail({.position = {.file = shown_path(path)},
                 .message = std::move(message),
                 .expected = options.expected});
  };
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return refuse("is a folder");
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code))
    return refuse("is no regular file");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return refuse("can't be opened");
  std::string text;
  constexpr size_t kPiece = size_t{1} << 16;
  while (stream && text.size() <= options.most_bytes) {
    const size_t before = text.size();
    text.resize(before + std::min(kPiece, options.most_bytes + 1 - before));
    stream.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<size_t>(stream.gcount()));
  }
  if (stream.bad()) return refuse("can't be read");
  if (text.size() > options.most_bytes)
    return refuse(fmt::format("is longer than {} bytes", options.most_bytes));
  return text;
}

}  // namespace plimsoll
