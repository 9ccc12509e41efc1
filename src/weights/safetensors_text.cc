#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "weights/safetensors_header.h"

namespace plimsoll {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string metadata_text(const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> members;
  for (const auto& [key, value] : metadata) members.push_back(quoted(key) + ":" + quoted(value));
  return fmt::format("\"__metadata__\":{{{}}}", fmt::join(members, ","));
}

std::string tensor_text(const StoredTensor& tensor) {
  return fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quoted(tensor.name),
                     tensor.type.name, fmt::join(tensor.shape, ","), tensor.begin, tensor.end);
}

}  // namespace

// As safetensors' serializer writes it, to the byte, so that a file of its order is the file that it makes.
std::string safetensors_header_text(const SafetensorsHeader& header) {
  std::vector<std::string> members;
  if (!header.metadata.empty()) members.push_back(metadata_text(header.metadata));
  for (const StoredTensor& tensor : header.tensors) members.push_back(tensor_text(tensor));
  std::string json = fmt::format("{{{}}}", fmt::join(members, ","));
  constexpr int64_t kAlignment = 8;
  json.resize(static_cast<size_t>(round_up(static_cast<int64_t>(json.size()), kAlignment)), ' ');
  std::string text;
  for (uint64_t i = 0; i < kHeaderLengthBytes; ++i)
    text.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  return text + json;
}

}  // namespace plimsoll
