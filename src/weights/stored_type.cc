#include <algorithm>
#include <array>
#include <cassert>

#include "weights/safetensors_header.h"

namespace plimsoll {
namespace {

// In the order of the serializer, which is that of its enumeration from the end.
constexpr std::array<StoredType, 22> kTypes = {
    {{"U64", 64, std::nullopt},        {"I64", 64, DType::kInt64},     {"F64", 64, DType::kFloat64},
     {"C64", 64, DType::kComplex64},   {"F32", 32, DType::kFloat32},   {"U32", 32, std::nullopt},
     {"I32", 32, DType::kInt32},       {"BF16", 16, DType::kBFloat16}, {"F16", 16, DType::kFloat16},
     {"U16", 16, std::nullopt},        {"I16", 16, std::nullopt},      {"F8_E5M2FNUZ", 8, std::nullopt},
     {"F8_E4M3FNUZ", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt},   {"F8_E4M3", 8, DType::kFloat8},
     {"F8_E5M2", 8, std::nullopt},     {"I8", 8, DType::kInt8},        {"U8", 8, DType::kUInt8},
     {"F6_E3M2", 6, std::nullopt},     {"F6_E2M3", 6, std::nullopt},   {"F4", 4, std::nullopt},
     {"BOOL", 8, DType::kBool}}};

}  // namespace

std::optional<StoredType> stored_type_from_name(std::string_view name) {
  const auto at =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const StoredType& type) { return type.name == name; });
  return at == kTypes.end() ? std::nullopt : std::optional(*at);
}

StoredType stored_type_of(DType dtype) {
  const auto at =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const StoredType& type) { return type.dtype == dtype; });
  assert(at != kTypes.end() && "every DType has a row");
  return *at;
}

size_t serializer_rank(const StoredType& type) {
  return static_cast<size_t>(std::find(kTypes.begin(), kTypes.end(), type) - kTypes.begin());
}

std::optional<uint64_t> stored_bytes(const StoredType& type, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  constexpr unsigned __int128 kMost = static_cast<unsigned __int128>(1) << 63;
  unsigned __int128 bits = static_cast<unsigned>(type.bits);
  for (const int64_t dim : shape) {
    bits *= static_cast<uint64_t>(dim);  // each factor is below 2^63, the product so far below 2^66
    if (bits / 8 >= kMost) return std::nullopt;
  }
  if (bits % 8 != 0) return std::nullopt;
  return static_cast<uint64_t>(bits / 8);
}

}  // namespace plimsoll
