// Bytes as a safetensors file and as an index of shards. What is accepted covers the data and, written again,
// reads the same; what is refused says why.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weights/safetensors_header.h"
#include "weights/weights_index.h"

namespace {

using namespace plimsoll;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_header(std::string_view image) {
  const Result<uint64_t> length = safetensors_header_length(image, image.size(), "fuzz");
  if (!length) return require(!length.error().message.empty());
  const uint64_t data_bytes = image.size() - kHeaderLengthBytes - *length;
  const auto header = parse_safetensors_header(image.substr(kHeaderLengthBytes, *length), data_bytes, "fuzz");
  if (!header) return require(!header.error().message.empty());
  uint64_t end = 0;
  for (const StoredTensor& tensor : header->tensors) {
    require(tensor.begin == end && tensor.end >= end);
    require(stored_bytes(tensor.type, tensor.shape) == tensor.bytes());
    end = tensor.end;
  }
  require(end == data_bytes);
  const std::string text = safetensors_header_text(*header);
  require(text.size() % kHeaderLengthBytes == 0);
  const auto again =
      parse_safetensors_header(std::string_view(text).substr(kHeaderLengthBytes), data_bytes, "fuzz");
  require(again && *again == *header);
}

void check_index(std::string_view text) {
  const auto index = parse_weights_index(text, "fuzz");
  if (!index) return require(!index.error().message.empty());
  const auto again = parse_weights_index(weights_index_text(*index), "fuzz");
  require(again && again->shard_of == index->shard_of);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_header(bytes);
  check_index(bytes);
  return 0;
}
