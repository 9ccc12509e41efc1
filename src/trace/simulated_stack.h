// The stack of a simulated block: its op in the op's module, "called" by the category of its storage. So
// viewers show a snapshot's blocks by module and by what they are for, and Plimsoll reads its own back. The
// trace's annotations are the program's phases by their names: "load", "fwd1", "bwd1.2", "step1".
//
//   stacks.add({simulated_frame("aten::mm.default", "layers.0.mlp"), category_frame("activation")});
#pragma once

#include <string>
#include <string_view>

#include "trace/stack_table.h"

namespace plimsoll {

// The file of the frame whose function is the category.
inline constexpr std::string_view kCategoryFile = "plimsoll category";
// The module of what `plimsoll-train` allocates while no op runs.
inline constexpr std::string_view kBetweenOps = "plimsoll-train";

inline bool is_category_frame(const StackFrame& frame) { return frame.filename == kCategoryFile; }

inline StackFrame simulated_frame(std::string_view op, std::string_view module) {
  return {.name = std::string(op), .filename = std::string(module), .line = 0};
}
inline StackFrame category_frame(std::string_view category) {
  return {.name = std::string(category), .filename = std::string(kCategoryFile), .line = 0};
}

}  // namespace plimsoll
