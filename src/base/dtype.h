// Element types of tensors, with their size in bytes. Names are those of torch without the prefix.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class DType : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat64,
  kInt64,
  kInt32,
  kUInt8,
  kInt8,
  kBool,
  kFloat8,
  kComplex64  // two fp32
};

constexpr int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
    case DType::kComplex64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kBool:
    case DType::kFloat8:
      return 1;
  }
  return 0;
}

// Complex numbers too: what can carry a gradient.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         dtype == DType::kFloat64 || dtype == DType::kFloat8 || dtype == DType::kComplex64;
}
constexpr bool is_half(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

std::string_view name_of(DType dtype);                        // "bf16", "fp32", "int64" ...
std::optional<DType> dtype_from_name(std::string_view name);  // also "bfloat16", "float32", "torch.bfloat16"

}  // namespace plimsoll
