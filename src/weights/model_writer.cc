#include "weights/model_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "weights/model_weights.h"
#include "weights/weights_index.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

bool is_of_a_model(const std::string& file) {
  return file == kModelFile || file == kModelIndexFile ||
         (file.starts_with("model-") && file.ends_with(".safetensors"));
}

Result<void> check_folder(const fs::path& folder) {
  std::error_code problem;
  const fs::directory_iterator entries(folder, problem);
  if (problem)
    return fail({.position = {.file = folder.string()},
                 .message = fmt::format("can't be written to: {}", problem.message()),
                 .expected = "a folder for the model"});
  for (const fs::directory_entry& entry : entries)
    if (is_of_a_model(entry.path().filename().string()))
      return fail({.position = {.file = entry.path().string()},
                   .message = "is there already",
                   .expected = "a folder without a model's weights",
                   .hint = "write to a new folder, which then takes the old one's place"});
  return {};
}

}  // namespace

std::vector<size_t> cut_into_shards(const std::vector<TensorSpec>& specs, uint64_t most_shard_bytes) {
  // A shard is numbered when it is closed, so a tensor that is too large comes before the shard that is open.
  constexpr size_t kOpen = SIZE_MAX;
  std::vector<size_t> shard_of(specs.size());
  size_t closed = 0;
  uint64_t open_bytes = 0;
  bool is_open = false;
  const auto close = [&] {
    if (!is_open) return;
    std::replace(shard_of.begin(), shard_of.end(), kOpen, closed++);
    is_open = false;
    open_bytes = 0;
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    const uint64_t bytes = specs[i].bytes();
    if (bytes > most_shard_bytes) {
      shard_of[i] = closed++;
      continue;
    }
    if (open_bytes + bytes > most_shard_bytes) close();
    shard_of[i] = kOpen;
    open_bytes += bytes;
    is_open = true;
  }
  close();
  return shard_of;
}

Result<ModelWriter> ModelWriter::create(const fs::path& folder, std::vector<TensorSpec> specs,
                                        const ModelWriterOptions& options) {
  PLIMSOLL_CHECK(check_folder(folder));
  PLIMSOLL_CHECK(check_specs(specs, folder.string()));
  ModelWriter writer;
  writer.folder_ = folder;
  writer.options_ = options;
  writer.specs_ = std::move(specs);
  writer.shard_of_ = cut_into_shards(writer.specs_, options.most_shard_bytes);
  const auto last = std::max_element(writer.shard_of_.begin(), writer.shard_of_.end());
  writer.shards_.resize(last == writer.shard_of_.end() ? 1 : *last + 1);
  for (size_t shard = 0; shard < writer.shard_count(); ++shard) PLIMSOLL_CHECK(writer.open_shard(shard));
  writer.pass_finished();
  return writer;
}

std::string ModelWriter::shard_name(size_t shard) const {
  if (shard_count() == 1) return std::string(kModelFile);
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shard_count());
}

Result<void> ModelWriter::open_shard(size_t shard) {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < specs_.size(); ++i)
    if (shard_of_[i] == shard) specs.push_back(specs_[i]);
  PLIMSOLL_TRY(writer, SafetensorsWriter::create(folder_ / shard_name(shard), specs, options_.metadata));
  shards_[shard] = std::move(writer);
  return {};
}

void ModelWriter::pass_finished() {
  while (next_ < specs_.size() && written_of_next_ == specs_[next_].bytes()) {
    ++next_;
    written_of_next_ = 0;
  }
}

Result<void> ModelWriter::write(std::span<const std::byte> piece) {
  if (piece.empty()) return {};
  assert(next_ < specs_.size() && piece.size() <= specs_[next_].bytes() - written_of_next_);
  PLIMSOLL_CHECK(shards_[shard_of_[next_]]->write(piece));
  written_of_next_ += piece.size();
  pass_finished();
  return {};
}

Result<void> ModelWriter::finish() {
  assert(next() == nullptr && "all tensors were written");
  WeightsIndex index{.shard_of = {}, .total_bytes = 0};
  for (size_t i = 0; i < specs_.size(); ++i) {
    index.shard_of[specs_[i].name] = shard_name(shard_of_[i]);
    *index.total_bytes += specs_[i].bytes();
  }
  for (auto& shard : shards_) PLIMSOLL_CHECK(shard->sync());
  if (shard_count() == 1) return shards_[0]->take_name();
  const std::string text = weights_index_text(index);
  PLIMSOLL_TRY(file, ReplacingFile::create(folder_ / kModelIndexFile, text.size()));
  PLIMSOLL_CHECK(file.write(std::as_bytes(std::span(text))));
  PLIMSOLL_CHECK(file.sync());
  for (auto& shard : shards_) PLIMSOLL_CHECK(shard->take_name());
  return file.take_name();
}

}  // namespace plimsoll
