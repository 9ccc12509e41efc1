#include "runtime/communication/collective.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace plimsoll::runtime {
namespace {

std::string_view name_of(CollectiveKind kind) {
  constexpr std::array<std::string_view, 3> kNames{"all_reduce", "reduce_scatter", "all_gather"};
  const auto i = static_cast<size_t>(kind);
  return i < kNames.size() ? kNames[i] : "unknown";
}

tl::unexpected<Error> refused(CollectiveKind kind, std::string what, std::string expected) {
  return fail({.message = fmt::format("{}: {}", name_of(kind), what),
               .expected = std::move(expected),
               .is_internal = true});
}

bool has_sum(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kFloat || dtype == at::kBFloat16;
}

}  // namespace

std::string CollectiveHeader::to_text() const {
  return fmt::format("collective {}, {} of {} {}", sequence, name_of(kind), elements,
                     c10::toString(static_cast<at::ScalarType>(dtype)));
}

char* Collective::bytes_of_whole(int64_t element) const {
  return static_cast<char*>(whole.mutable_data_ptr()) + element * static_cast<int64_t>(whole.element_size());
}

Result<Collective> make_collective(CollectiveKind kind, const at::Tensor& whole, const at::Tensor& part,
                                   int64_t ranks) {
  if (!has_sum(whole.scalar_type()))
    return refused(kind, fmt::format("dtype {}", c10::toString(whole.scalar_type())),
                   "Double, Float or BFloat16");
  if (!whole.is_contiguous() || (part.defined() && !part.is_contiguous()))
    return refused(kind, "a tensor that is not contiguous", "contiguous tensors");
  if (part.defined() && part.scalar_type() != whole.scalar_type())
    return refused(kind,
                   fmt::format("a part of {} and a whole of {}", c10::toString(part.scalar_type()),
                               c10::toString(whole.scalar_type())),
                   "the same dtype");
  if (part.defined() && part.numel() * ranks != whole.numel())
    return refused(kind,
                   fmt::format("a part of {} and a whole of {} elements on {} ranks", part.numel(),
                               whole.numel(), ranks),
                   fmt::format("a whole of {}", part.numel() * ranks));
  return Collective{.header = {.kind = kind,
                               .dtype = static_cast<uint32_t>(whole.scalar_type()),
                               .elements = whole.numel()},
                    .whole = whole,
                    .part = part};
}

std::optional<std::string> difference(const CollectiveHeader& own, int64_t self,
                                      const CollectiveHeader& theirs, int64_t other) {
  if (own == theirs) return std::nullopt;
  return fmt::format("ranks differ in what they call: {} on rank {}, {} on rank {}", own.to_text(), self,
                     theirs.to_text(), other);
}

}  // namespace plimsoll::runtime
