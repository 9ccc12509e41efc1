#include "replay/stack_roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_python_file(std::string_view filename) {
  return filename.ends_with(".py") || filename.starts_with("<");
}

// What one frame decides of the blocks that are made below it.
std::optional<BlockRole> role_by(const StackFrame& frame) {
  const std::string_view name = frame.name, file = frame.filename;
  if (contains(file, "torch/optim/") || contains(file, "torch/optim\\")) {
    const bool makes_state = name == "_init_group" || name == "init_state" || name == "_init_state";
    if (makes_state) return BlockRole::kOptimizerState;
    return name == "profile_hook_step" || name == "wrapper" ? std::nullopt
                                                            : std::optional(BlockRole::kOptimizerTemporary);
  }
  if (name == "_engine_run_backward" || contains(name, "torch::autograd::Engine::"))
    return BlockRole::kBackward;
  if (contains(file, "nn/modules/module.py") && (name == "convert" || name == "_apply"))
    return BlockRole::kParameter;
  if (name == "reset_parameters" || contains(file, "nn/init.py") || contains(file, "nn/parameter.py"))
    return BlockRole::kParameter;
  if (name == "forward" && is_python_file(file)) return BlockRole::kActivation;
  if (name == "_call_impl" && contains(file, "nn/modules/module.py")) return BlockRole::kActivation;
  return std::nullopt;
}

// Backward and optimizer stand outside of what they call: a forward inside a backward is a recomputation.
BlockRole role_of(const StackTable& stacks, StackId id) {
  std::optional<BlockRole> innermost;
  for (FrameId f : stacks.frames_of(id)) {
    const std::optional<BlockRole> role = role_by(stacks.frame(f));
    if (!role) continue;
    if (*role == BlockRole::kOptimizerState || *role == BlockRole::kBackward) return *role;
    if (!innermost) innermost = role;
    // a state is made in _init_group, further out than what fills it
    if (*role == BlockRole::kOptimizerTemporary) innermost = role;
  }
  return innermost.value_or(BlockRole::kUnknown);
}

// "aten::mm" of "at::_ops::mm::call(at::Tensor const&, ...)".
std::string op_in(const StackFrame& frame) {
  constexpr std::string_view kPrefix = "at::_ops::";
  const std::string_view name = frame.name;
  if (name.starts_with("aten::")) return std::string(name);
  const size_t at = name.find(kPrefix);
  if (at == name.npos) return {};
  const std::string_view rest = name.substr(at + kPrefix.size());
  const size_t end = rest.find("::");
  return end == rest.npos ? std::string() : fmt::format("aten::{}", rest.substr(0, end));
}

StackMeaning meaning_of(const StackTable& stacks, StackId id) {
  StackMeaning m;
  std::optional<FrameId> python;
  for (FrameId f : stacks.frames_of(id)) {
    const StackFrame& frame = stacks.frame(f);
    if (m.op.empty() || frame.name.starts_with("at::_ops::")) {
      const std::string op = op_in(frame);
      if (!op.empty()) m.op = op;
    }
    if (!is_python_file(frame.filename)) continue;
    if (!python) python = f;
    if (!m.user_frame && !is_library_file(frame.filename)) m.user_frame = f;
  }
  m.role = role_of(stacks, id);
  m.shown_frame = m.user_frame ? m.user_frame : python;
  if (!m.shown_frame && !stacks.frames_of(id).empty()) m.shown_frame = stacks.frames_of(id).front();
  return m;
}

}  // namespace

std::string_view name_of(BlockRole role) {
  constexpr std::array<std::string_view, kNumBlockRoles> kNames = {
      "parameters",  "optimizer states", "optimizer temporaries", "gradients and backward",
      "activations", "unknown"};
  return kNames[static_cast<size_t>(role)];
}

bool is_library_file(std::string_view filename) {
  constexpr std::array<std::string_view, 6> kParts = {"/site-packages/", "/dist-packages/",   "/lib/python3",
                                                      "<frozen ",        "\\site-packages\\", "\\lib\\"};
  return std::ranges::any_of(kParts, [&](std::string_view part) { return contains(filename, part); });
}

std::string frame_text(const StackFrame& frame) {
  std::string_view file = frame.filename;
  size_t cut = file.rfind('/');
  if (cut != file.npos && cut > 0) {
    const size_t before = file.rfind('/', cut - 1);
    if (before != file.npos) file = file.substr(before + 1);
  }
  if (file.empty() || file == "??") return frame.name;
  return frame.line > 0 ? fmt::format("{}:{} {}", file, frame.line, frame.name)
                        : fmt::format("{} {}", file, frame.name);
}

std::vector<StackMeaning> meanings_of(const StackTable& stacks) {
  std::vector<StackMeaning> all;
  all.reserve(stacks.size());
  for (size_t id = 0; id < stacks.size(); ++id) all.push_back(meaning_of(stacks, static_cast<StackId>(id)));
  return all;
}

}  // namespace plimsoll
