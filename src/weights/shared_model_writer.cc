#include "weights/shared_model_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/replacing_file.h"
#include "weights/model_weights.h"
#include "weights/model_writer.h"
#include "weights/weights_index.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> unwritable(const std::string& file, int why) {
  return fail({.position = {.file = file},
               .message = fmt::format("can't be written: {}", std::strerror(why)),
               .expected = "a folder with enough space that may be written to"});
}

std::string shard_name(size_t shard, size_t count) {
  if (count == 1) return std::string(kModelFile);
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, count);
}

// Takes the space where the file system can; the file has its size in any case. Returns 0, or why not.
int take_space(int descriptor, uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (fallocate(descriptor, 0, 0, size) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR) return errno;
  return ftruncate(descriptor, size) == 0 ? 0 : errno;
}

Result<void> write_index(const fs::path& folder, const std::vector<TensorSpec>& specs,
                         const std::vector<size_t>& shard_of, size_t count) {
  WeightsIndex index{.shard_of = {}, .total_bytes = 0};
  for (size_t i = 0; i < specs.size(); ++i) {
    index.shard_of[specs[i].name] = shard_name(shard_of[i], count);
    *index.total_bytes += specs[i].bytes();
  }
  const std::string text = weights_index_text(index);
  PLIMSOLL_TRY(file, ReplacingFile::create(folder / kModelIndexFile, text.size()));
  PLIMSOLL_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace

// The other closes what this one had open.
SharedModelWriter& SharedModelWriter::operator=(SharedModelWriter&& other) noexcept {
  std::swap(files_, other.files_);
  std::swap(places_, other.places_);
  return *this;
}

SharedModelWriter::~SharedModelWriter() {
  for (const File& file : files_)
    if (file.descriptor != -1) close(file.descriptor);
}

Result<SharedModelWriter> SharedModelWriter::lay_out(const fs::path& folder,
                                                     const std::vector<TensorSpec>& specs,
                                                     uint64_t most_shard_bytes) {
  return make(folder, specs, most_shard_bytes, true);
}
Result<SharedModelWriter> SharedModelWriter::join(const fs::path& folder,
                                                  const std::vector<TensorSpec>& specs,
                                                  uint64_t most_shard_bytes) {
  return make(folder, specs, most_shard_bytes, false);
}

Result<SharedModelWriter> SharedModelWriter::make(const fs::path& folder,
                                                  const std::vector<TensorSpec>& specs,
                                                  uint64_t most_shard_bytes, bool is_new) {
  PLIMSOLL_CHECK(check_specs(specs, folder.string()));
  const std::vector<size_t> shard_of = cut_into_shards(specs, most_shard_bytes);
  const auto last = std::ranges::max_element(shard_of);
  const size_t count = last == shard_of.end() ? 1 : *last + 1;
  SharedModelWriter writer;
  writer.places_.resize(specs.size());
  for (size_t shard = 0; shard < count; ++shard) {
    std::vector<TensorSpec> own;
    for (size_t i = 0; i < specs.size(); ++i)
      if (shard_of[i] == shard) own.push_back(specs[i]);
    const SafetensorsHeader header = header_of(own, kPyTorchMetadata);
    const uint64_t data = safetensors_header_text(header).size();
    for (size_t i = 0, next = 0; i < specs.size(); ++i)
      if (shard_of[i] == shard) {
        const StoredTensor& stored = header.tensors[next++];
        writer.places_[i] = {.file = shard, .begin = data + stored.begin, .bytes = stored.bytes()};
      }
    PLIMSOLL_CHECK(writer.open_shard(folder / shard_name(shard, count), own, is_new));
  }
  if (is_new && count > 1) PLIMSOLL_CHECK(write_index(folder, specs, shard_of, count));
  return writer;
}

Result<void> SharedModelWriter::open_shard(const fs::path& path, const std::vector<TensorSpec>& specs,
                                           bool is_new) {
  constexpr mode_t kMode = 0666;  // the process's umask takes from it
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0), kMode);
  if (descriptor < 0) return unwritable(path.string(), errno);
  files_.push_back({.name = path.string(), .descriptor = descriptor});
  if (!is_new) return {};
  const SafetensorsHeader header = header_of(specs, kPyTorchMetadata);
  const std::string text = safetensors_header_text(header);
  const uint64_t bytes = text.size() + (header.tensors.empty() ? 0 : header.tensors.back().end);
  if (const int why = take_space(descriptor, bytes); why != 0) return unwritable(path.string(), why);
  return write_at(files_.back(), 0, std::as_bytes(std::span(text)));
}

Result<void> SharedModelWriter::write_at(const File& file, uint64_t offset,
                                         std::span<const std::byte> piece) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux moves less than 2 GiB a call
  while (!piece.empty()) {
    const ssize_t count = pwrite(file.descriptor, piece.data(), std::min(kMostAtOnce, piece.size()),
                                 static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unwritable(file.name, errno);
    offset += static_cast<uint64_t>(count);
    piece = piece.subspan(static_cast<size_t>(count));
  }
  return {};
}

Result<void> SharedModelWriter::write(size_t tensor, uint64_t first_byte, std::span<const std::byte> piece) {
  const Place& place = places_[tensor];
  assert(first_byte + piece.size() <= place.bytes && "a range within the tensor");
  return write_at(files_[place.file], place.begin + first_byte, piece);
}

Result<void> SharedModelWriter::sync() {
  for (const File& file : files_)
    if (fsync(file.descriptor) != 0) return unwritable(file.name, errno);
  return {};
}

}  // namespace plimsoll
