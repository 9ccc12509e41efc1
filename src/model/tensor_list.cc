#include "model/tensor_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace plimsoll {

void TensorList::begin_layer(std::string_view container, size_t layer) {
  prefix_ = fmt::format("{}.{}.", container, layer);
  layer_ = static_cast<int>(layer);
}

void TensorList::end_layers() {
  prefix_.clear();
  layer_.reset();
}

ParameterTensor& TensorList::parameter(std::string_view name, std::initializer_list<Extent> shape) {
  ParameterTensor tensor{.name = prefix_ + std::string(name), .layer = layer_};
  tensor.shape.reserve(shape.size());
  tensor.dims.reserve(shape.size());
  for (const Extent& extent : shape) {
    tensor.shape.push_back(extent.size);
    tensor.dims.push_back(extent.dim);
  }
  return architecture_.parameters.emplace_back(std::move(tensor));
}

void TensorList::expert(std::string_view name, std::initializer_list<Extent> shape) {
  parameter(name, shape).is_expert = true;
}

void TensorList::linear(std::string_view name, Extent out, Extent in, bool has_bias) {
  parameter(fmt::format("{}.weight", name), {out, in});
  if (has_bias) parameter(fmt::format("{}.bias", name), {out});
}

void TensorList::transposed_linear(std::string_view name, Extent in, Extent out, bool has_bias) {
  parameter(fmt::format("{}.weight", name), {in, out});
  if (has_bias) parameter(fmt::format("{}.bias", name), {out});
}

void TensorList::embedding(std::string_view name, Extent rows, Extent columns) {
  parameter(fmt::format("{}.weight", name), {rows, columns});
}

void TensorList::norm(std::string_view name, Extent width, const Norm& norm) {
  if (norm.has_weight) parameter(fmt::format("{}.weight", name), {width});
  if (norm.has_bias) parameter(fmt::format("{}.bias", name), {width});
}

void TensorList::tie(std::string_view name, std::string_view alias) {
  auto& all = architecture_.parameters;
  const auto it = std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.name == name; });
  assert(it != all.end() && "tie() names a parameter that isn't listed");
  it->tied_names.emplace_back(alias);
}

BufferTensor& TensorList::buffer(std::string_view name, std::vector<int64_t> shape, int64_t element_bytes) {
  return architecture_.buffers.emplace_back(BufferTensor{
      .name = prefix_ + std::string(name), .shape = std::move(shape), .element_bytes = element_bytes});
}

}  // namespace plimsoll
