#include "replay/stack_roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trace/simulated_stack.h"

namespace plimsoll {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_python_file(std::string_view filename) {
  return filename.ends_with(".py") || filename.starts_with("<");
}

// Of a forward within the backward.
bool is_recomputation(const StackFrame& frame) {
  return contains(frame.filename, "torch/utils/checkpoint.py") &&
         (frame.name == "unpack_hook" || frame.name == "recompute_fn");
}

// cuBLAS' and cuBLASLt's, held for as long as their handle. Source: aten/src/ATen/cuda/CublasHandlePool.cpp.
bool is_library_workspace(std::string_view name) {
  if (!name.starts_with("at::cuda::")) return false;
  const std::string_view function = name.substr(0, name.find_last_of('('));
  return contains(function, "Workspace") || contains(function, "BlasHandle") ||
         contains(function, "BlasLtHandle");
}

// How memory is allocated or freed and stacks are taken, not who wanted it.
bool is_machinery(std::string_view name) {
  constexpr std::array<std::string_view, 8> kPrefixes = {"torch::unwind::",
                                                         "torch::CapturedTraceback::",
                                                         "torch::cuda::(anonymous namespace)::gather",
                                                         "c10::",
                                                         "at::detail::",
                                                         "at::native::empty",
                                                         "at::native::new_empty",
                                                         "std::"};
  const size_t result = name.find(" at::detail::_empty_");  // of a template, named with its result's type
  return result < name.find('(') ||
         std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// What the function that let go of a block says of it. Source: torch/csrc/autograd/engine.cpp (a node's
// outputs end in evaluate_function, its inputs in call_function), saved_variable.cpp, accumulate_grad.cpp.
std::optional<BlockRole> role_by_free(const StackFrame& frame) {
  const std::string_view name = frame.name;
  if (contains(name, "::release_variables") || contains(name, "torch::autograd::SavedVariable::reset_data") ||
      contains(name, "torch::autograd::SavedVariable::~") || contains(name, "torch::autograd::deleteNode"))
    return BlockRole::kActivation;
  if (contains(name, "torch::autograd::Engine::") || contains(name, "torch::autograd::AccumulateGrad::") ||
      (name == "zero_grad" && is_python_file(frame.filename)))
    return BlockRole::kBackward;
  if (contains(name, "torch::autograd::generated::") ||
      (contains(name, "torch::autograd::") && contains(name, "::apply(")))
    return BlockRole::kUnknown;  // a saved tensor or a temporary
  if (contains(frame.filename, "torch/optim/") || contains(frame.filename, "torch\\optim\\"))
    return BlockRole::kOptimizer;
  return std::nullopt;
}

struct CategoryRole {
  std::string_view category;
  BlockRole role;
};
constexpr std::array<CategoryRole, 16> kCategories = {{{"parameter", BlockRole::kParameter},
                                                       {"master_parameter", BlockRole::kParameter},
                                                       {"unsharded_parameter", BlockRole::kParameter},
                                                       {"optimizer_state", BlockRole::kOptimizerState},
                                                       {"gradient", BlockRole::kBackward},
                                                       {"unsharded_gradient", BlockRole::kBackward},
                                                       {"accumulated_gradient", BlockRole::kBackward},
                                                       {"communication_bucket", BlockRole::kBackward},
                                                       {"activation", BlockRole::kActivation},
                                                       {"logits", BlockRole::kActivation},
                                                       {"temporary", BlockRole::kBackward},
                                                       {"buffer", BlockRole::kInput},
                                                       {"input", BlockRole::kInput},
                                                       {"gather_buffer", BlockRole::kCommunication},
                                                       {"reduce_buffer", BlockRole::kCommunication},
                                                       {"workspace", BlockRole::kWorkspace}}};

std::optional<BlockRole> role_by(const StackFrame& frame) {
  const std::string_view name = frame.name, file = frame.filename;
  if (is_library_workspace(name)) return BlockRole::kWorkspace;
  if (contains(file, "torch/optim/") || contains(file, "torch\\optim\\")) return BlockRole::kOptimizer;
  if (name == "_engine_run_backward" || contains(name, "torch::autograd::Engine::") ||
      contains(name, "torch::autograd::generated::") || is_recomputation(frame) ||
      (name == "backward" && is_python_file(file)))
    return BlockRole::kBackward;
  if (contains(file, "nn/modules/module.py") && (name == "convert" || name == "_apply"))
    return BlockRole::kParameter;
  if (name == "__init__" && contains(file, "torch/nn/modules/")) return BlockRole::kParameter;
  if (name == "reset_parameters" || contains(file, "nn/init.py") || contains(file, "nn/parameter.py"))
    return BlockRole::kParameter;
  if (name == "forward" && is_python_file(file)) return BlockRole::kActivation;
  if (contains(file, "torch/nn/functional.py")) return BlockRole::kActivation;
  if (name == "_call_impl" && contains(file, "nn/modules/module.py")) return BlockRole::kActivation;
  return std::nullopt;
}

// Of frames of C++ alone: the node of the graph that ran, or the kernel, or else the innermost that is no
// machinery.
std::optional<FrameId> telling_frame(const StackTable& stacks, StackId id) {
  for (std::string_view part : {"torch::autograd::generated::", "at::native::", "torch::autograd::", ""})
    for (FrameId f : stacks.frames_of(id)) {
      const std::string_view name = stacks.frame(f).name;
      if (name.starts_with(part) && !is_machinery(name)) return f;
    }
  return std::nullopt;
}

// "aten::mm" of "at::_ops::mm::call(at::Tensor const&, ...)".
std::string op_in(const StackFrame& frame) {
  constexpr std::string_view kPrefix = "at::_ops::";
  const std::string_view name = frame.name;
  if (name.starts_with("aten::")) return std::string(name);
  const size_t at = name.find(kPrefix);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = name.substr(at + kPrefix.size());
  const size_t end = rest.find("::");
  return end == std::string_view::npos ? std::string() : fmt::format("aten::{}", rest.substr(0, end));
}

// What a frame says by itself; found once for each, since stacks share most of theirs.
struct FrameMeaning {
  std::optional<BlockRole> role, freed_role;
  std::string op;
  bool is_category = false, is_op_call = false, is_python = false, is_users = false;
};

FrameMeaning meaning_of(const StackFrame& frame) {
  return {.role = role_by(frame),
          .freed_role = role_by_free(frame),
          .op = op_in(frame),
          .is_category = is_category_frame(frame),
          .is_op_call = frame.name.starts_with("at::_ops::"),
          .is_python = is_python_file(frame.filename),
          .is_users = !is_library_file(frame.filename)};
}

class Meanings {
 public:
  explicit Meanings(const StackTable& stacks) : stacks_(stacks) {
    frames_.reserve(stacks.num_frames());
    for (FrameId f = 0; f < stacks.num_frames(); ++f) frames_.push_back(meaning_of(stacks.frame(f)));
  }

  StackMeaning of(StackId id) const {
    StackMeaning m;
    std::optional<FrameId> python;
    bool is_in_module = false;
    for (FrameId f : stacks_.frames_of(id)) {
      const FrameMeaning& frame = frames_[f];
      if (frame.is_category) m.is_simulated = true;
      if ((m.op.empty() || frame.is_op_call) && !frame.op.empty()) m.op = frame.op;
      if (!frame.is_python) continue;
      if (!python) python = f;
      if (!m.user_frame && frame.is_users) m.user_frame = f;
      if (frame.role == BlockRole::kActivation) {
        is_in_module = true;
        m.call_frame.reset();
      } else if (is_in_module && frame.is_users && !m.call_frame) {
        m.call_frame = f;
      }
    }
    m.role = role_of(id);
    m.freed_role = freed_role_of(id);
    m.shown_frame = m.user_frame ? m.user_frame : python ? python : telling_frame(stacks_, id);
    return m;
  }

 private:
  BlockRole role_of(StackId id) const {
    std::optional<BlockRole> innermost;
    for (FrameId f : stacks_.frames_of(id)) {
      if (frames_[f].is_category) return role_of_category(stacks_.frame(f).name);
      const std::optional<BlockRole> role = frames_[f].role;
      if (role == BlockRole::kWorkspace || role == BlockRole::kOptimizer || role == BlockRole::kBackward)
        return *role;
      if (!innermost) innermost = role;
    }
    return innermost.value_or(BlockRole::kUnknown);
  }
  BlockRole freed_role_of(StackId id) const {
    for (FrameId f : stacks_.frames_of(id))
      if (frames_[f].freed_role) return *frames_[f].freed_role;
    return BlockRole::kUnknown;
  }

  const StackTable& stacks_;
  std::vector<FrameMeaning> frames_;
};

}  // namespace

std::string_view name_of(BlockRole role) {
  constexpr std::array<std::string_view, kNumBlockRoles> kNames = {
      "parameters",  "optimizer states",   "optimizer temporaries", "optimizer",  "gradients and backward",
      "activations", "inputs and buffers", "communication buffers", "workspaces", "unknown"};
  return kNames[static_cast<size_t>(role)];
}

BlockRole role_of_category(std::string_view category) {
  const auto* const known = std::ranges::find(kCategories, category, &CategoryRole::category);
  return known == kCategories.end() ? BlockRole::kUnknown : known->role;
}

bool is_library_file(std::string_view filename) {
  constexpr std::array<std::string_view, 6> kParts = {"/site-packages/", "/dist-packages/",   "/lib/python3",
                                                      "<frozen ",        "\\site-packages\\", "\\lib\\"};
  return std::ranges::any_of(kParts, [&](std::string_view part) { return contains(filename, part); });
}

std::string frame_text(const StackFrame& frame) {
  std::string_view file = frame.filename;
  size_t cut = file.rfind('/');
  if (cut != std::string_view::npos && cut > 0) {
    const size_t before = file.rfind('/', cut - 1);
    if (before != std::string_view::npos) file = file.substr(before + 1);
  }
  std::string_view name = frame.name;
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  size_t arguments = name.find('(');
  while (arguments != std::string_view::npos && name.substr(arguments).starts_with(kAnonymous))
    arguments = name.find('(', arguments + 1);
  name = name.substr(0, arguments);  // of C++ without its arguments
  if (file.empty() || file == "??" || frame.line == 0) return std::string(name);
  return fmt::format("{}:{} {}", file, frame.line, name);
}

std::vector<StackMeaning> meanings_of(const StackTable& stacks) {
  std::vector<StackMeaning> all;
  all.reserve(stacks.size());
  const Meanings meanings(stacks);
  for (size_t id = 0; id < stacks.size(); ++id) all.push_back(meanings.of(static_cast<StackId>(id)));
  return all;
}

BlockRole role_without_stack(const AllocationTrace& trace) {
  const StackTable& stacks = trace.stacks;
  for (FrameId f = 0; f < stacks.num_frames(); ++f)
    if (!is_python_file(stacks.frame(f).filename)) return BlockRole::kUnknown;
  const bool has_stacks = std::ranges::any_of(trace.events, [&](const AllocationEvent& event) {
    return event.action == AllocationAction::kAlloc && event.stack && !stacks.frames_of(*event.stack).empty();
  });
  return has_stacks ? BlockRole::kBackward : BlockRole::kUnknown;
}

}  // namespace plimsoll
