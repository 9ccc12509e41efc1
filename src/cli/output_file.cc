#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <streambuf>
#include <utility>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

Error unwritable(const std::string& path, int why) {
  const std::string reason = why != 0 ? std::string(": ") + std::strerror(why) : std::string();
  return {
      .position = {.file = path}, .message = "can't be written" + reason, .expected = "a file to write to"};
}

// What the path leads to: links are followed even where the last leads nowhere yet, as open() does.
fs::path target_of(fs::path path) {
  constexpr int kMostLinks = 40;  // Linux's own bound
  std::error_code problem;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, problem); ++i) {
    const fs::path next = fs::read_symlink(path, problem);
    if (problem) break;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

class DescriptorBuffer final : public std::streambuf {
 public:
  explicit DescriptorBuffer(int descriptor) : descriptor_(descriptor) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }

 private:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    return sputc(traits_type::to_char_type(c));
  }
  int sync() override {
    for (const char* at = pbase(); at != pptr();) {
      const ssize_t written = ::write(descriptor_, at, static_cast<size_t>(pptr() - at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return -1;
      at += written;
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return 0;
  }

  int descriptor_;
  std::array<char, 65536> buffer_;
};

// A new file beside `target`, removed again unless it takes the target's name.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& target) : target_(target) {
    constexpr int kMostTries = 100;
    constexpr mode_t kMode = 0666;  // the process's umask takes from it
    for (int i = 0; i < kMostTries && descriptor_ == -1; ++i) {
      path_ = fmt::format("{}.{}-{}.partial", target.string(), getpid(), i);
      descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
      if (descriptor_ == -1 && errno != EEXIST) return;
    }
    is_there_ = descriptor_ != -1;
  }
  ~PartialFile() {
    if (descriptor_ != -1) close(descriptor_);
    if (is_there_) unlink(path_.c_str());
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  // Each returns whether it could; errno says why not.
  bool is_open() const { return descriptor_ != -1; }
  bool fill(const std::function<void(std::ostream&)>& write) {
    DescriptorBuffer buffer(descriptor_);
    std::ostream stream(&buffer);
    errno = 0;
    write(stream);
    stream.flush();
    return stream.good();
  }
  bool take_name() {
    struct stat old {};
    if (stat(target_.c_str(), &old) == 0 && fchmod(descriptor_, old.st_mode & 07777) != 0) return false;
    const bool is_closed = close(std::exchange(descriptor_, -1)) == 0;
    if (!is_closed || rename(path_.c_str(), target_.c_str()) != 0) return false;
    is_there_ = false;
    return true;
  }

 private:
  fs::path target_;
  std::string path_;
  int descriptor_ = -1;
  bool is_there_ = false;
};

Result<void> write_in_place(const std::string& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  if (!file) return fail(unwritable(path, errno));
  write(file);
  file.close();
  if (!file) return fail(unwritable(path, errno));
  return {};
}

bool is_same_file(const std::string& one, const std::string& other) {
  constexpr std::string_view kNowhere = "/dev/null";
  std::error_code problem;
  if (one == kNowhere && other == kNowhere) return false;
  if (fs::equivalent(one, other, problem)) return true;
  const auto place = [](const std::string& path) {
    std::error_code ignored;
    return fs::weakly_canonical(target_of(path), ignored);
  };
  return place(one) == place(other);
}

}  // namespace

Result<void> write_output_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::error_code problem;
  const fs::path target = target_of(path);
  const bool exists = fs::exists(target, problem);
  if (exists && !fs::is_regular_file(target, problem)) return write_in_place(path, write);
  if (exists && access(target.c_str(), W_OK) != 0) return fail(unwritable(path, errno));
  PartialFile partial(target);
  if (!partial.is_open() || !partial.fill(write) || !partial.take_name())
    return fail(unwritable(path, errno));
  return {};
}

Result<void> check_outputs_differ(const std::vector<OutputOption>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (outputs[i].path && outputs[j].path && is_same_file(*outputs[i].path, *outputs[j].path))
        return fail(
            {.position = {.file = std::string(outputs[i].name)},
             .message = fmt::format("{} is the file that {} writes", *outputs[i].path, outputs[j].name),
             .expected = "a file of its own"});
  return {};
}

}  // namespace plimsoll
