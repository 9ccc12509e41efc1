#include "base/dtype.h"

#include <array>
#include <utility>

namespace plimsoll {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::string_view torch_name;
};
constexpr std::array<Row, 11> kRows = {{{DType::kFloat32, "fp32", "float32"},
                                        {DType::kBFloat16, "bf16", "bfloat16"},
                                        {DType::kFloat16, "fp16", "float16"},
                                        {DType::kFloat64, "fp64", "float64"},
                                        {DType::kInt64, "int64", "int64"},
                                        {DType::kInt32, "int32", "int32"},
                                        {DType::kUInt8, "uint8", "uint8"},
                                        {DType::kInt8, "int8", "int8"},
                                        {DType::kBool, "bool", "bool"},
                                        {DType::kFloat8, "fp8", "float8_e4m3fn"},
                                        {DType::kComplex64, "complex64", "complex64"}}};

}  // namespace

std::string_view name_of(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.name;
  return "?";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (const Row& row : kRows)
    if (row.name == name || row.torch_name == name) return row.dtype;
  return std::nullopt;
}

}  // namespace plimsoll
