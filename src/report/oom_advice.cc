#include "report/oom_advice.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {
namespace {

// Blocks above the limit are not split, so that those of large requests stay whole: half the request as a
// power of two, within what the setting takes (above 20) and what is of use.
int64_t split_limit_mib(Bytes tried) {
  int64_t limit = 32;
  while (limit < 512 && kMiB * (limit * 4) <= tried) limit *= 2;
  return limit;
}

}  // namespace

std::string settings_variable_of(const OutOfMemoryMessage& m) {
  if (!m.settings_variable.empty()) return m.settings_variable;
  if (m.kind == "HIP") return "PYTORCH_HIP_ALLOC_CONF";
  if (m.kind == "NPU") return "PYTORCH_NPU_ALLOC_CONF";
  return m.kind == "XPU" ? "PYTORCH_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

bool has_expandable_segments(const OutOfMemoryMessage& m) { return m.wording == OomWording::kFrom21; }

std::string fragmentation_advice(const OutOfMemoryMessage& m) {
  const std::string variable = settings_variable_of(m);
  switch (m.wording) {
    case OomWording::kFrom21:
      return m.kind == "XPU" && m.settings_variable.empty()
                 ? fmt::format("Try {}=expandable_segments:True, where this version knows it for XPU.",
                               variable)
                 : fmt::format("Try {}=expandable_segments:True.", variable);
    case OomWording::kBefore21:
      return fmt::format(
          "{}, try {}=max_split_size_mb:{}: larger blocks then stay whole. expandable_segments:True, which "
          "does more, needs PyTorch 2.1.",
          m.settings_variable.empty() && m.kind != "NPU" ? "From PyTorch 1.10 on" : "Before PyTorch 2.1",
          variable, split_limit_mib(m.tried));
    case OomWording::kBefore15:
      return fmt::format(
          "The PyTorch of this text (before 1.5) has no setting against it; 2.1 and later have "
          "{}=expandable_segments:True.",
          variable);
    case OomWording::kAsync:
    case OomWording::kMps:
      break;
  }
  return {};
}

}  // namespace plimsoll
