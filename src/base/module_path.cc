#include "base/module_path.h"

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

bool is_number(std::string_view part) {
  return !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

// "module" is too common a name to be a wrapper's within a model. Source: torch/nn/parallel/distributed.py,
// torch/distributed/fsdp/_common_utils.py (FSDP_WRAPPED_MODULE), torch/_dynamo/eval_frame.py,
// torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py.
bool is_of_wrapper(std::string_view part, bool is_first) {
  constexpr std::array<std::string_view, 3> kParts = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module",
                                                      "_orig_mod"};
  return (is_first && part == "module") || std::ranges::find(kParts, part) != kParts.end();
}

// Each part through `change`; those that become empty are left out.
template <typename Change>
std::string changed(std::string_view path, Change change) {
  std::string result;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = change(path.substr(begin, end - begin), result.empty());
    if (!part.empty()) result.append(result.empty() ? "" : ".").append(part);
    begin = end + 1;
  }
  return result;
}

}  // namespace

std::string folded_module(std::string_view path) {
  return changed(path, [](std::string_view part, bool) { return is_number(part) ? "{}" : part; });
}

std::string unwrapped_module(std::string_view path) {
  return changed(
      path, [](std::string_view part, bool is_first) { return is_of_wrapper(part, is_first) ? "" : part; });
}

std::string_view parent_module(std::string_view path) {
  const size_t dot = path.rfind('.');
  return path.substr(0, dot == std::string_view::npos ? 0 : dot);
}

}  // namespace plimsoll
