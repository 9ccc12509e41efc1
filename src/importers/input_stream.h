// An open file, pipe or standard input of which the first bytes have been looked at: a pipe gives its bytes
// only once. Owns the descriptor.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"

namespace plimsoll {

class InputStream {
 public:
  // "-": standard input. Errors: what can't be opened, a folder.
  static Result<InputStream> open(const std::filesystem::path& path);

  InputStream(InputStream&& other) noexcept;
  InputStream& operator=(InputStream&&) = delete;
  ~InputStream();

  // Up to `count` bytes; 0 at the end, or after an error, which `error` gets.
  size_t read(uint8_t* to, size_t count, std::optional<Error>& error);
  bool is_gzip() const { return head_bytes_ == kMagic && head_[0] == 0x1f && head_[1] == 0x8b; }
  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }  // 0: not known, as of a pipe
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  static constexpr size_t kMagic = 2;

  explicit InputStream(std::string name) : name_(std::move(name)) {}
  void read_head();
  size_t take_head(uint8_t* to, size_t most);

  int descriptor_ = -1;
  std::string name_;
  uint64_t size_ = 0, bytes_read_ = 0;
  std::array<uint8_t, kMagic> head_{};
  size_t head_bytes_ = 0;  // that have been looked at and not read
};

}  // namespace plimsoll
