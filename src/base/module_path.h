// Paths of modules as PyTorch's named_modules() gives them: "model.layers.3.mlp.down_proj".
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

// With every number left open: "model.layers.{}.mlp.down_proj".
std::string folded_module(std::string_view path);

// Without the parts that PyTorch's wrappers add to a path (DistributedDataParallel, FSDP1,
// checkpoint_wrapper, torch.compile): "module.layers.0._checkpoint_wrapped_module.mlp" -> "layers.0.mlp".
std::string unwrapped_module(std::string_view path);

// "model.layers.{}" of "model.layers.{}.mlp"; empty: of one without a dot.
std::string_view parent_module(std::string_view path);

}  // namespace plimsoll
