#include "weights/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/list_folder.h"
#include "weights/weights_index.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// What else the folder holds that a user may have meant.
std::string hint_of(const fs::path& folder) {
  std::set<std::string> others;
  bool has_pickle = false;
  for (const fs::path& file : list_folder(folder)) {
    if (file.extension() == ".safetensors") others.insert(file.filename().string());
    has_pickle = has_pickle || file.filename().string().starts_with("pytorch_model");
  }
  if (!others.empty()) return fmt::format("name a file of the folder, such as {}", *others.begin());
  return has_pickle ? "pytorch_model.bin is not read: save the model with safe_serialization=True" : "";
}

// Every tensor of the index is in its shard, every tensor of a shard is in the index, under that shard.
Result<void> check_index(const WeightsIndex& index, const std::vector<SafetensorsFile>& shards,
                         const std::vector<std::string>& names, const std::string& file) {
  std::map<std::string, const SafetensorsFile*> by_name;
  for (size_t i = 0; i < shards.size(); ++i) by_name[names[i]] = &shards[i];
  for (const auto& [tensor, shard] : index.shard_of)
    if (by_name.at(shard)->find(tensor) == nullptr)
      return fail({.position = {.file = file, .key = tensor},
                   .message = fmt::format("is said to be in {}, which doesn't hold it", shard),
                   .expected = "an index and shards of one model"});
  for (size_t i = 0; i < shards.size(); ++i)
    for (const StoredTensor& tensor : shards[i].tensors()) {
      const auto at = index.shard_of.find(tensor.name);
      if (at != index.shard_of.end() && at->second == names[i]) continue;
      return fail({.position = {.file = shards[i].name(), .key = tensor.name},
                   .message = at == index.shard_of.end()
                                  ? fmt::format("isn't in {}", file)
                                  : fmt::format("is in {} too, where {} says it is", at->second, file),
                   .expected = "an index and shards of one model"});
    }
  return {};
}

}  // namespace

Result<ModelWeights> ModelWeights::open(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem))
    return path.extension() == ".json" ? open_index(path) : open_file(path);
  if (fs::exists(path / kModelFile, problem)) return open_file(path / kModelFile);
  if (fs::exists(path / kModelIndexFile, problem)) return open_index(path / kModelIndexFile);
  return fail({.position = {.file = path.string()},
               .message = "holds no weights",
               .expected = fmt::format("{} or {}", kModelFile, kModelIndexFile),
               .hint = hint_of(path)});
}

Result<ModelWeights> ModelWeights::open_file(const fs::path& path) {
  PLIMSOLL_TRY(file, SafetensorsFile::open(path));
  ModelWeights weights;
  weights.name_ = path.string();
  weights.add_shard(std::move(file));
  weights.sort();
  return weights;
}

Result<ModelWeights> ModelWeights::open_index(const fs::path& path) {
  PLIMSOLL_TRY(index, read_weights_index(path));
  std::set<std::string> names;
  for (const auto& [tensor, shard] : index.shard_of) names.insert(shard);
  ModelWeights weights;
  weights.name_ = path.string();
  for (const std::string& name : names) {
    PLIMSOLL_TRY(file, SafetensorsFile::open(path.parent_path() / name));
    weights.add_shard(std::move(file));
  }
  PLIMSOLL_CHECK(check_index(index, weights.shards_, {names.begin(), names.end()}, path.string()));
  weights.sort();
  if (index.total_bytes && *index.total_bytes != weights.bytes())
    weights.notes_.push_back(fmt::format("{}: metadata.total_size is {}, but the tensors have {} bytes",
                                         path.string(), *index.total_bytes, weights.bytes()));
  return weights;
}

void ModelWeights::add_shard(SafetensorsFile file) {
  for (const StoredTensor& tensor : file.tensors())
    tensors_.push_back({.stored = tensor, .shard = shards_.size()});
  shards_.push_back(std::move(file));
}

void ModelWeights::sort() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const ModelTensor& a, const ModelTensor& b) { return a.stored.name < b.stored.name; });
}

const ModelTensor* ModelWeights::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const ModelTensor& tensor, std::string_view wanted) { return tensor.stored.name < wanted; });
  return at == tensors_.end() || at->stored.name != name ? nullptr : &*at;
}

uint64_t ModelWeights::bytes() const {
  uint64_t sum = 0;
  for (const ModelTensor& tensor : tensors_) sum += tensor.stored.bytes();
  return sum;
}

Result<void> ModelWeights::read(const ModelTensor& tensor, uint64_t first_byte,
                                std::span<std::byte> to) const {
  return shards_[tensor.shard].read(tensor.stored, first_byte, to);
}

}  // namespace plimsoll
