// What a safetensors file says of its tensors: the header of the format that Hugging Face's models come in.
//
//   byte 0   length of the header, 8 bytes, little endian
//   byte 8   {"__metadata__": {"format": "pt"}, "norm": {"dtype": "F32", "shape": [4], "data_offsets": [0,
//   16]}}
//            padded with spaces to a multiple of 8
//   then     data: the tensors, row-major and little endian, without holes; offsets count from here
//
// Source: safetensors/src/tensor.rs of huggingface/safetensors 0.8 (its types, its bound on the header, and
// its rule that tensors follow each other without holes). Stricter than it: a tensor has no other keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace plimsoll {

// An element type by its name in the file. Types that Plimsoll computes nothing in are read and written too.
struct StoredType {
  std::string_view name;       // "BF16"; a literal
  int bits = 0;                // of one element
  std::optional<DType> dtype;  // empty: Plimsoll computes nothing in it

  friend bool operator==(const StoredType&, const StoredType&) = default;
};
std::optional<StoredType> stored_type_from_name(std::string_view name);
StoredType stored_type_of(DType dtype);
size_t serializer_rank(const StoredType& type);  // the lower, the earlier safetensors writes it

struct StoredTensor {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes of the data

  uint64_t bytes() const { return end - begin; }
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

// Bytes that so many elements take; empty where they are no whole bytes or beyond 2^63.
std::optional<uint64_t> stored_bytes(const StoredType& type, const std::vector<int64_t>& shape);

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;  // in the order of the data, which they cover without holes

  friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

inline constexpr uint64_t kHeaderLengthBytes = 8;
inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

// The length in a file's first 8 bytes. Errors: beyond kMostHeaderBytes or the file's size.
Result<uint64_t> safetensors_header_length(std::string_view first_bytes, uint64_t file_size,
                                           const std::string& file);
// `json` is the header without its length, `data_bytes` what the file holds behind it.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                                   const std::string& file);
// All that stands before the data. REQUIRES what parse_safetensors_header() guarantees.
std::string safetensors_header_text(const SafetensorsHeader& header);

}  // namespace plimsoll
