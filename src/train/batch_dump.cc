#include "train/batch_dump.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace plimsoll {

Result<BatchDump> BatchDump::open(const std::optional<std::string>& path) {
  BatchDump dump;
  if (!path) return dump;
  dump.path_ = *path;
  dump.file_.reset(std::fopen(path->c_str(), "we"));
  if (!dump.file_)
    return fail({.position = {.file = *path},
                 .message = fmt::format("cannot be written: {}", std::strerror(errno)),
                 .expected = "a file in a folder that exists"});
  return dump;
}

Result<void> BatchDump::write(const at::Tensor& ids, const at::Tensor& labels) {
  if (!file_) return {};
  const int64_t sequence = ids.size(1);
  const auto* const from_ids = static_cast<const int64_t*>(ids.const_data_ptr());
  const auto* const from_labels = static_cast<const int64_t*>(labels.const_data_ptr());
  std::string text;
  for (int64_t row = 0; row < ids.size(0); ++row) {
    for (int64_t i = 0; i < sequence; ++i) text += fmt::format("{} ", from_ids[row * sequence + i]);
    text += fmt::format("{}\n", from_labels[(row + 1) * sequence - 1]);
  }
  const bool is_written = std::fputs(text.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0;
  if (!is_written)
    return fail(
        {.position = {.file = path_}, .message = fmt::format("cannot be written: {}", std::strerror(errno))});
  return {};
}

}  // namespace plimsoll
