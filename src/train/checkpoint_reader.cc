#include "train/checkpoint_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "train/checkpoint_writer.h"
#include "train/checksum.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{4} << 20;  // checksums are taken in pieces of so many

std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// "exp_avg:model.norm.weight:128"
struct PieceName {
  std::string array, parameter;
  int64_t begin = 0;
};
std::optional<PieceName> parse_piece_name(std::string_view name) {
  const size_t first = name.find(':'), last = name.rfind(':');
  if (first == std::string_view::npos || first == last) return std::nullopt;
  const std::optional<int64_t> begin = number_in(name.substr(last + 1));
  if (!begin) return std::nullopt;
  return PieceName{.array = std::string(name.substr(0, first)),
                   .parameter = std::string(name.substr(first + 1, last - first - 1)),
                   .begin = *begin};
}

// "weights:model.norm.weight:0:128"
struct WeightPiece {
  std::string parameter;
  int64_t begin = 0, elements = 0;
};
std::optional<WeightPiece> parse_weight_piece(std::string_view name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<PieceName> piece = parse_piece_name(name.substr(0, colon));
  const std::optional<int64_t> elements = number_in(name.substr(colon + 1));
  if (!piece || !elements) return std::nullopt;
  return WeightPiece{.parameter = piece->parameter, .begin = piece->begin, .elements = *elements};
}

tl::unexpected<Error> wrong(const std::string& file, const std::string& key, std::string message,
                            std::string expected) {
  return fail({.position = {.file = file, .key = key},
               .message = std::move(message),
               .expected = std::move(expected),
               .hint = "remove this checkpoint's folder to go on from the one before"});
}

tl::unexpected<Error> changed(const std::string& file, const std::string& key) {
  return wrong(file, key, "isn't what was saved: its checksum is another one", "the bytes that were written");
}

Result<void> check_step_of(const SafetensorsFile& file, int64_t step) {
  const auto found = file.metadata().find(std::string(kStepKey));
  const std::string expected = fmt::format("{}", step);
  if (found != file.metadata().end() && found->second == expected) return {};
  return wrong(file.name(), std::string(kStepKey),
               found == file.metadata().end()
                   ? "is missing from the file's metadata"
                   : fmt::format("is {}: the file is of another checkpoint", found->second),
               fmt::format("{}, as state.json says", expected));
}

// read(first byte, to) reads a piece's bytes.
template <typename Read>
Result<uint32_t> checksum_of(uint64_t bytes, Read&& read) {
  std::vector<std::byte> buffer(std::min<uint64_t>(kBufferBytes, bytes));
  uint32_t sum = 0;
  for (uint64_t at = 0; at < bytes; at += buffer.size()) {
    const std::span<std::byte> to(buffer.data(), std::min<uint64_t>(buffer.size(), bytes - at));
    PLIMSOLL_CHECK(read(at, to));
    sum = checksum(to, sum);
  }
  return sum;
}

}  // namespace

Result<CheckpointReader> CheckpointReader::open(const fs::path& folder, const CheckpointState& state,
                                                const std::vector<SavedArray>& expected) {
  CheckpointReader reader;
  PLIMSOLL_TRY(model, ModelWeights::open(folder));
  reader.model_.push_back(std::move(model));
  for (int64_t r = 0; r < state.ranks; ++r)
    PLIMSOLL_CHECK(reader.add_file(folder / optimizer_file(r, state.ranks), state));
  for (size_t i = 0; i < reader.files_.size(); ++i) {
    for (const StoredTensor& tensor : reader.files_[i].tensors()) {
      const PieceName name = *parse_piece_name(tensor.name);
      reader.stored_[{name.array, name.parameter}].push_back(
          {.begin = name.begin, .elements = tensor.shape[0], .file = i, .tensor = &tensor});
    }
    PLIMSOLL_CHECK(reader.add_weights(i));
  }
  for (auto& [array, pieces] : reader.stored_) std::ranges::sort(pieces, {}, &Stored::begin);
  for (const SavedArray& array : expected) PLIMSOLL_CHECK(reader.check_cover(array));
  return reader;
}

// Which weights the file has checksums of.
Result<void> CheckpointReader::add_weights(size_t file) {
  for (const auto& [name, sum] : files_[file].metadata()) {
    if (!name.starts_with(fmt::format("{}:", kWeights))) continue;
    const std::optional<WeightPiece> piece = parse_weight_piece(name);
    if (!piece)
      return wrong(files_[file].name(), name, "is no piece of the model's weights",
                   "weights:PARAMETER:BEGIN:ELEMENTS");
    stored_[{std::string(kWeights), piece->parameter}].push_back(
        {.begin = piece->begin, .elements = piece->elements, .file = file});
  }
  return {};
}

Result<void> CheckpointReader::add_file(const fs::path& path, const CheckpointState& state) {
  PLIMSOLL_TRY(file, SafetensorsFile::open(path));
  if (state.has_checksums()) PLIMSOLL_CHECK(check_step_of(file, state.step));
  for (const StoredTensor& tensor : file.tensors()) {
    const std::optional<PieceName> name = parse_piece_name(tensor.name);
    const bool is_state = name && std::ranges::find(state.states, name->array) != state.states.end();
    if (!is_state || tensor.type.dtype != DType::kFloat32 || tensor.shape.size() != 1)
      return wrong(path.string(), tensor.name, "is no piece of an optimizer's state",
                   "STATE:PARAMETER:BEGIN, fp32 in one dimension");
    if (!file.metadata().contains(tensor.name))
      return wrong(path.string(), tensor.name, "has no checksum", "one under its name in __metadata__");
  }
  files_.push_back(std::move(file));
  return {};
}

Result<void> CheckpointReader::check_cover(const SavedArray& array) const {
  const auto found = stored_.find({array.state, array.parameter});
  const fs::path folder = fs::path(files_.front().name()).parent_path();
  int64_t end = 0;
  if (found != stored_.end())
    for (const Stored& s : found->second) {
      if (s.begin != end) break;
      end += s.elements;
    }
  if (end == array.elements) return {};
  return wrong(folder.string(), fmt::format("{}:{}", array.state, array.parameter),
               fmt::format("the optimizer's files hold {} up to {}",
                           array.state == kWeights ? "checksums of the elements" : "the elements", end),
               fmt::format("{}, each once", array.elements));
}

Result<void> CheckpointReader::check_states_of(const SafetensorsFile& file) const {
  for (const StoredTensor& tensor : file.tensors()) {
    PLIMSOLL_TRY(sum, checksum_of(tensor.bytes(), [&](uint64_t at, std::span<std::byte> to) {
                   return file.read(tensor, at, to);
                 }));
    if (checksum_text(sum) != file.metadata().at(tensor.name)) return changed(file.name(), tensor.name);
  }
  return {};
}

// `name` is "weights:PARAMETER:BEGIN:ELEMENTS".
Result<void> CheckpointReader::check_weights_of(const SafetensorsFile& file, const std::string& name,
                                                const std::string& sum) const {
  const WeightPiece piece = *parse_weight_piece(name);  // as add_weights() saw
  const ModelTensor* const tensor = model_.front().find(piece.parameter);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(float));
  const uint64_t bytes = static_cast<uint64_t>(std::min(piece.elements, kMost)) * sizeof(float);
  const uint64_t begin = static_cast<uint64_t>(std::min(piece.begin, kMost)) * sizeof(float);
  if (tensor == nullptr || begin > tensor->stored.bytes() || bytes > tensor->stored.bytes() - begin)
    return wrong(file.name(), name, "is no piece of the model's weights", "weights:PARAMETER:BEGIN:ELEMENTS");
  PLIMSOLL_TRY(found, checksum_of(bytes, [&](uint64_t at, std::span<std::byte> to) {
                 return model_.front().read(*tensor, begin + at, to);
               }));
  if (checksum_text(found) != sum) return changed(model_.front().file_of(*tensor), piece.parameter);
  return {};
}

Result<void> CheckpointReader::check_sums(int64_t rank, int64_t ranks) const {
  for (size_t i = static_cast<size_t>(rank); i < files_.size(); i += static_cast<size_t>(ranks)) {
    PLIMSOLL_CHECK(check_states_of(files_[i]));
    for (const auto& [name, sum] : files_[i].metadata())
      if (name.starts_with(fmt::format("{}:", kWeights)))
        PLIMSOLL_CHECK(check_weights_of(files_[i], name, sum));
  }
  return {};
}

Result<void> CheckpointReader::read(const std::string& array, const std::string& parameter, int64_t begin,
                                    std::span<float> to) const {
  const int64_t end = begin + static_cast<int64_t>(to.size());
  for (const Stored& s : stored_.at({array, parameter})) {
    const int64_t first = std::max(begin, s.begin), last = std::min(end, s.begin + s.elements);
    if (first >= last) continue;
    const std::span<float> part =
        to.subspan(static_cast<size_t>(first - begin), static_cast<size_t>(last - first));
    PLIMSOLL_CHECK(files_[s.file].read(*s.tensor, static_cast<uint64_t>(first - s.begin) * sizeof(float),
                                       std::as_writable_bytes(part)));
  }
  return {};
}

}  // namespace plimsoll
