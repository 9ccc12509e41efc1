#include "importers/byte_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/read_file.h"
#include "importers/gzip_source.h"
#include "importers/input_stream.h"

namespace plimsoll {
namespace {

constexpr std::string_view kStandardInput = "-";

class FileSource final : public ByteSource {
 public:
  explicit FileSource(InputStream file) : file_(std::move(file)) { file_size_ = file_.size(); }

 protected:
  size_t read(uint8_t* to, size_t count) override {
    const size_t got = file_.read(to, count, error_);
    consumed_ = file_.bytes_read();
    return got;
  }

 private:
  InputStream file_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) { file_size_ = bytes.size(); }
  explicit MemorySource(std::string&& bytes) : owned_(std::move(bytes)), bytes_(owned_) {
    file_size_ = bytes_.size();
  }

 protected:
  size_t read(uint8_t* to, size_t count) override {
    const size_t copied = bytes_.copy(reinterpret_cast<char*>(to), count);
    bytes_.remove_prefix(copied);
    consumed_ += copied;
    return copied;
  }

 private:
  std::string owned_;  // where the source owns them
  std::string_view bytes_;
};

}  // namespace

bool ByteSource::refill(size_t count) {
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kWindow + kMargin);
  size_t kept = available();
  if (kept > 0) std::memmove(buffer_.get(), next_, kept);
  while (kept < count) {
    const size_t got = read(buffer_.get() + kept, kWindow - kept);
    if (got == 0) break;
    kept += got;
    end_offset_ += got;
  }
  std::memset(buffer_.get() + kept, 0, kMargin);
  next_ = buffer_.get();
  end_ = next_ + kept;
  return kept >= count;
}

std::string_view ByteSource::look(size_t count) {
  const size_t found = ensure(count) ? count : available();
  return {reinterpret_cast<const char*>(next_), found};
}

Result<std::string> ByteSource::take_rest(size_t most_bytes, const Error& too_long) {
  std::string text;
  while (ensure(1)) {
    const size_t count = available();
    text.append(reinterpret_cast<const char*>(take(count)), count);
    if (text.size() > most_bytes) return tl::unexpected(too_long);
  }
  if (error_) return tl::unexpected(*error_);
  return text;
}

std::optional<double> ByteSource::share_read() const {
  if (file_size_ == 0) return std::nullopt;
  return static_cast<double>(consumed_) / static_cast<double>(file_size_);
}

std::unique_ptr<ByteSource> ByteSource::of(std::string_view bytes) {
  return std::make_unique<MemorySource>(bytes);
}

std::unique_ptr<ByteSource> ByteSource::owning(std::string bytes) {
  return std::make_unique<MemorySource>(std::move(bytes));
}

std::string input_name(const std::filesystem::path& path) {
  return path == kStandardInput ? "standard input" : shown_path(path);
}

Result<std::unique_ptr<ByteSource>> ByteSource::open(const std::filesystem::path& path) {
  PLIMSOLL_TRY(file, InputStream::open(path));
  if (file.is_gzip()) return gzip_source(std::move(file));
  return std::make_unique<FileSource>(std::move(file));
}

}  // namespace plimsoll
