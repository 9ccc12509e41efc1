#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <streambuf>
#include <utility>

#include "cli/output_target.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

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

// Returns whether all of it could be written; errno says why not.
bool fill(int descriptor, const std::function<void(std::ostream&)>& write) {
  DescriptorBuffer buffer(descriptor);
  std::ostream stream(&buffer);
  errno = 0;
  write(stream);
  stream.flush();
  return stream.good();
}

// A new file in the target's folder, gone again unless it takes the target's name. It has no name of its own
// until then, so that a run that is killed leaves nothing; where the file system can't do that (open() with
// O_TMPFILE), the file is called TARGET.PID-N.partial meanwhile.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& target) : target_(target) {
    open_unnamed();
    if (descriptor_ == -1)
      name([this](const char* path) {
        descriptor_ = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode);
        return descriptor_ != -1;
      });
  }
  ~PartialFile() {
    if (descriptor_ != -1) close(descriptor_);
    if (has_name_) unlink(path_.c_str());
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  int descriptor() const { return descriptor_; }  // -1: errno says why
  // Returns whether it could; errno says why not.
  bool take_name() {
    struct stat old {};
    if (stat(target_.c_str(), &old) == 0 && fchmod(descriptor_, old.st_mode & 07777) != 0) return false;
    if (!has_name_) name([this](const char* path) { return link_as(path); });
    if (!has_name_) return false;
    const bool is_closed = close(std::exchange(descriptor_, -1)) == 0;
    if (!is_closed || rename(path_.c_str(), target_.c_str()) != 0) return false;
    has_name_ = false;
    return true;
  }

 private:
  static constexpr mode_t kMode = 0666;  // the process's umask takes from it

  std::string open_path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  bool link_as(const char* path) const {
    return linkat(AT_FDCWD, open_path().c_str(), AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0;
  }
  void open_unnamed() {
#ifdef O_TMPFILE
    const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
    descriptor_ = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
    if (descriptor_ != -1 && access(open_path().c_str(), F_OK) != 0)  // no /proc
      close(std::exchange(descriptor_, -1));
#endif
  }
  // By the first name that is free.
  void name(const std::function<bool(const char*)>& give) {
    constexpr int kMostTries = 100;
    for (int i = 0; i < kMostTries; ++i) {
      path_ = fmt::format("{}.{}-{}.partial", target_.string(), getpid(), i);
      has_name_ = give(path_.c_str());
      if (has_name_ || errno != EEXIST) return;
    }
  }

  fs::path target_;
  std::string path_;
  int descriptor_ = -1;
  bool has_name_ = false;
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

Result<void> write_to_descriptor(const std::string& path, int descriptor,
                                 const std::function<void(std::ostream&)>& write) {
  std::fflush(stdout);  // what was printed before comes first
  if (!fill(descriptor, write)) return fail(unwritable(path, errno));
  return {};
}

fs::path place_of(const std::string& path) {
  const Result<OutputTarget> target = find_output_target(path);
  std::error_code ignored;
  return target ? fs::weakly_canonical(target->path, ignored) : fs::path(path);
}

bool is_same_file(const std::string& one, const std::string& other) {
  constexpr std::string_view kNowhere = "/dev/null";
  std::error_code problem;
  if (one == kNowhere && other == kNowhere) return false;
  return fs::equivalent(one, other, problem) || place_of(one) == place_of(other);
}

bool is_regular_and_same(const std::string& one, const std::string& other) {
  std::error_code problem;
  return fs::is_regular_file(one, problem) && fs::equivalent(one, other, problem);
}

// A file that standard output goes to can't be replaced by another at its end.
Result<void> check_is_not_replaced(const OutputOption& output) {
  const Result<OutputTarget> target = find_output_target(*output.path);
  if (!target) return tl::unexpected(target.error());
  if (target->kind != OutputTarget::Kind::kFile || !is_regular_and_same(*output.path, "/dev/stdout"))
    return {};
  return fail({.position = {.file = std::string(output.name)},
               .message = fmt::format("{} is the file that standard output goes to", *output.path),
               .expected = "a file of its own",
               .hint = "/dev/stdout writes both there, one after the other"});
}

}  // namespace

Result<void> write_output_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  PLIMSOLL_TRY(target, find_output_target(path));
  if (target.descriptor) return write_to_descriptor(path, *target.descriptor, write);
  if (target.kind == OutputTarget::Kind::kInPlace) return write_in_place(path, write);
  std::error_code problem;
  if (fs::exists(target.path, problem) && access(target.path.c_str(), W_OK) != 0)
    return fail(unwritable(path, errno));
  PartialFile partial(target.path);
  if (partial.descriptor() == -1 || !fill(partial.descriptor(), write) || !partial.take_name())
    return fail(unwritable(path, errno));
  return {};
}

Result<void> check_outputs(const std::vector<OutputOption>& outputs, const std::vector<std::string>& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].path) continue;
    const std::string path = path_of_output(*outputs[i].path);
    const auto refuse = [&](const std::string& what) {
      return fail({.position = {.file = std::string(outputs[i].name)},
                   .message = fmt::format("{} is the file that {}", *outputs[i].path, what),
                   .expected = "a file of its own"});
    };
    PLIMSOLL_CHECK(check_is_not_replaced(outputs[i]));
    for (const std::string& input : inputs)
      if (is_regular_and_same(path, input == "-" ? "/dev/stdin" : input)) return refuse("is read");
    for (size_t j = 0; j < i; ++j)
      if (outputs[j].path && is_same_file(path, path_of_output(*outputs[j].path)))
        return refuse(fmt::format("{} writes", outputs[j].name));
  }
  return {};
}

std::FILE* stream_beside(const std::vector<OutputOption>& outputs) {
  const auto is_standard = [](const OutputOption& output) { return output.path && *output.path == "-"; };
  return std::ranges::any_of(outputs, is_standard) ? stderr : stdout;
}

}  // namespace plimsoll
