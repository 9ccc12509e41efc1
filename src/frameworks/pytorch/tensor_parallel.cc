#include "frameworks/pytorch/tensor_parallel.h"

namespace plimsoll::pytorch {

LinearSplit split_of(std::string_view module) {
  const size_t dot = module.rfind('.');
  const std::string_view name = dot == std::string_view::npos ? module : module.substr(dot + 1);
  for (std::string_view columns : {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"})
    if (name == columns) return LinearSplit::kColumns;
  for (std::string_view rows : {"o_proj", "down_proj"})
    if (name == rows) return LinearSplit::kRows;
  return LinearSplit::kNone;
}

Architecture local_architecture(const Architecture& architecture, int64_t degree) {
  Architecture local = architecture;
  if (degree == 1) return local;
  for (Layer& layer : local.layers) {
    layer.attention.heads /= degree;
    layer.attention.kv_heads /= degree;
    if (layer.mlp) layer.mlp->intermediate /= degree;
  }
  for (ParameterTensor& p : local.parameters) {
    const size_t dot = p.name.rfind('.');
    const LinearSplit split = split_of(std::string_view(p.name).substr(0, dot));
    if (split == LinearSplit::kColumns) p.shape[0] /= degree;
    if (split == LinearSplit::kRows && p.shape.size() == 2) p.shape[1] /= degree;
  }
  return local;
}

}  // namespace plimsoll::pytorch
