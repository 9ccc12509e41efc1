// An example of an op kind with a backward rule, for op_table_test.cc: what goes in, and what is kept.
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "program/ops.h"

namespace plimsoll {

using Inputs = std::vector<Value>;

struct Example {
  OpKind kind;
  std::vector<TensorInfo> inputs;
  std::function<Value(Inputs&)> apply;  // lets go of the inputs; its last op is of the kind, or a view of it
  std::set<uint32_t> kept_inputs = {};
  std::set<uint32_t> kept_outputs = {};
};

inline TensorInfo wants(std::initializer_list<int64_t> sizes, DType dtype = DType::kBFloat16) {
  return {.dtype = dtype, .requires_grad = true, .layout = Layout::contiguous(sizes)};
}
inline TensorInfo plain(std::initializer_list<int64_t> sizes) {
  return {.dtype = DType::kBFloat16, .layout = Layout::contiguous(sizes)};
}
inline TensorInfo indices(std::initializer_list<int64_t> sizes) {
  return {.dtype = DType::kInt64, .layout = Layout::contiguous(sizes)};
}
inline TensorInfo mask(std::initializer_list<int64_t> sizes) {
  return {.dtype = DType::kBool, .layout = Layout::contiguous(sizes)};
}

using ops::SizeList;
inline constexpr DType kFloat = DType::kFloat32;

}  // namespace plimsoll
