#include "report/oom_request.h"

#include <fmt/format.h>

#include "allocator/rounding.h"

namespace plimsoll {
namespace {

constexpr Bytes of(uint64_t bytes) { return Bytes{static_cast<int64_t>(bytes)}; }

bool names_segment(const OutOfMemoryMessage& m) {
  return m.wording != OomWording::kMps && m.wording != OomWording::kAsync;
}

// From 1 GiB on the message rounds to 10 MiB, which hides the segment's own step.
bool is_exact(Bytes tried) { return tried < kGiB; }

std::string range_text(const TensorRange& range) {
  if (range.above.value == 0) return fmt::format("up to {}", to_text(range.up_to));
  return fmt::format("{} to {}", to_text(range.above), to_text(range.up_to));
}

}  // namespace

std::vector<TensorRange> tensor_ranges(const OutOfMemoryMessage& m) {
  constexpr Bytes kStep = of(kLargeGranularity);
  if (!names_segment(m) || m.tried < of(kSmallSegment)) return {};
  if (is_exact(m.tried) && m.tried.value % kStep.value != 0) return {};  // of PyTorch 1.0
  if (m.tried == of(kSmallSegment)) return {{.above = Bytes{}, .up_to = of(kSmallLimit)}};
  const TensorRange own{.above = m.tried - kStep, .up_to = m.tried};
  if (m.tried == of(kLargeSegment)) return {{.above = of(kSmallLimit), .up_to = of(kLargeOwnSegment)}, own};
  return {own};
}

Bytes smallest_tensor(const OutOfMemoryMessage& m) {
  const std::vector<TensorRange> ranges = tensor_ranges(m);
  return ranges.empty() ? m.tried : ranges.front().above + of(kMinBlock);
}

std::string tensor_text(const OutOfMemoryMessage& m) {
  const std::vector<TensorRange> ranges = tensor_ranges(m);
  if (ranges.empty() || !is_exact(m.tried)) return {};
  std::string text = "a tensor of " + range_text(ranges.front());
  for (size_t i = 1; i < ranges.size(); ++i) text += " or of " + range_text(ranges[i]);
  return text;
}

}  // namespace plimsoll
