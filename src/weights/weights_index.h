// What model.safetensors.index.json says: which shard holds which tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

struct WeightsIndex {
  std::map<std::string, std::string> shard_of;  // by tensor; a file beside the index
  std::optional<uint64_t> total_bytes;          // metadata.total_size, where it is a whole number
};

// Errors, beside base/json_events.h: no weight_map, or an empty one; a shard that is no name of a file beside
// the index. What else stands in metadata is anybody's and is passed over.
Result<WeightsIndex> parse_weights_index(std::string_view json, const std::string& file);
Result<WeightsIndex> read_weights_index(const std::filesystem::path& path);

// As Transformers writes it.
std::string weights_index_text(const WeightsIndex& index);

}  // namespace plimsoll
