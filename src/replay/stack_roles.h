// What a call stack says of a block: the line of the user's own code that asked for it, and, by the library
// functions on the way, what it is for. A guess by rules over function and file names of PyTorch, not a fact
// of the snapshot; what no rule knows stays unknown.
//
// Rules: a frame of torch/optim (an optimizer of the user's own is called through optimizer.py too) makes
// optimizer memory. A backward's engine (`_engine_run_backward`, torch::autograd) makes gradients and
// backward temporaries, even of a forward that is recomputed within. Otherwise the innermost frame that
// decides:
// `_apply` and `convert` of nn/modules/module.py, constructors of nn/modules, nn/parameter.py, nn/init.py,
// `reset_parameters` make parameters, a `forward`, a module's call and nn/functional.py activations. What a
// block lives through decides further (report/snapshot_holders.cc): optimizer memory that is never freed, or
// alive while others allocate, is state; a block from before the trace that is never freed and has the size
// of a gradient or state is a parameter. Source: torch/optim/*.py, torch/autograd/__init__.py,
// torch/nn/modules/module.py, torch/utils/checkpoint.py.
//
// A block from before the trace that is freed in it has the stack of its free alone. That tells less: what a
// node of the graph releases was saved by the forward, what the engine itself lets go of is a gradient, as is
// what zero_grad() frees; the rest stays unknown, but for what an optimizer's step replaces.
//
// Of a simulated trace nothing is guessed: its stacks name the category (trace/simulated_stack.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/allocation_trace.h"

namespace plimsoll {

enum class BlockRole : uint8_t {
  kParameter,
  kOptimizerState,
  kOptimizerTemporary,
  kOptimizer,  // of stacks: one of the two
  kBackward,
  kActivation,
  kInput,          // and buffers of modules
  kCommunication,  // gathered parameters aside
  kWorkspace,
  kUnknown
};
inline constexpr size_t kNumBlockRoles = 10;
std::string_view name_of(BlockRole role);  // "parameters", "optimizer states", ...

// Of an estimate's category: "optimizer_state". kUnknown: none that is known.
BlockRole role_of_category(std::string_view category);

struct StackMeaning {
  BlockRole role = BlockRole::kUnknown;
  BlockRole freed_role = BlockRole::kUnknown;  // of what was freed there, when no more is known of it
  std::optional<FrameId> user_frame;           // the innermost of the user's own code
  std::optional<FrameId> shown_frame;          // that one, or else the innermost of Python, or else what ran
  std::string op;                              // "aten::mm", where the stack shows it
  // Where the user's code called the outermost module: where its result is held.
  std::optional<FrameId> call_frame;
  bool is_simulated = false;  // the frame shown is an op in a module
};

// Of every stack of the table.
std::vector<StackMeaning> meanings_of(const StackTable& stacks);

// Of an alloc without a stack. Where the others' have Python's frames alone (stacks="python"), it is of a
// thread without Python, as the backward's on a GPU is. Where no alloc has one (context="state" records those
// of blocks only) it is of anything.
BlockRole role_without_stack(const AllocationTrace& trace);

// Of a Python library or an interpreter, not of the user's code.
bool is_library_file(std::string_view filename);
// "model.py:54 forward", with the file's last two parts.
std::string frame_text(const StackFrame& frame);

}  // namespace plimsoll
