#include "weights/safetensors_file.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace plimsoll {
namespace {

Result<std::string> read_text(const InputFile& file, uint64_t offset, uint64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  PLIMSOLL_CHECK(file.read(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  PLIMSOLL_TRY(file, InputFile::open(path, "a safetensors file"));
  PLIMSOLL_TRY(first_bytes, read_text(file, 0, std::min(file.size(), kHeaderLengthBytes)));
  PLIMSOLL_TRY(length, safetensors_header_length(first_bytes, file.size(), file.name()));
  PLIMSOLL_TRY(json, read_text(file, kHeaderLengthBytes, length));
  const uint64_t data_begin = kHeaderLengthBytes + length;
  PLIMSOLL_TRY(header, parse_safetensors_header(json, file.size() - data_begin, file.name()));
  return SafetensorsFile(std::move(file), std::move(header), data_begin);
}

SafetensorsFile::SafetensorsFile(InputFile file, SafetensorsHeader header, uint64_t data_begin)
    : file_(std::move(file)),
      header_(std::move(header)),
      data_begin_(data_begin),
      by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return header_.tensors[a].name < header_.tensors[b].name; });
}

const StoredTensor* SafetensorsFile::find(std::string_view tensor) const {
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), tensor,
      [&](size_t place, std::string_view name) { return header_.tensors[place].name < name; });
  if (at == by_name_.end() || header_.tensors[*at].name != tensor) return nullptr;
  return &header_.tensors[*at];
}

Result<void> SafetensorsFile::read(const StoredTensor& tensor, uint64_t first_byte,
                                   std::span<std::byte> to) const {
  assert(first_byte <= tensor.bytes() && to.size() <= tensor.bytes() - first_byte && "a range of the tensor");
  return file_.read(data_begin_ + tensor.begin + first_byte, to);
}

}  // namespace plimsoll
