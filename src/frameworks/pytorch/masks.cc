#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// masking_utils.find_packed_sequence_indices on positions that count up: no packed sequences are found.
void look_for_packed_sequences(const Value& positions) {
  Value dummy = ops::sub(ops::slice(positions, 1, 0, 1), ops::slice(positions, 1, 0, 1));
  Value joined = ops::cat({dummy, positions}, -1);
  const int64_t length = positions.size(1);
  Value difference = ops::sub(ops::slice(joined, -1, 1, length), ops::slice(joined, -1, 0, length));
  joined.reset();
  Value packed = ops::cumsum(ops::compare(difference), -1, DType::kInt64);
  Value is_zero = ops::compare(ops::select(packed, 1, length - 1));
  const Value all = ops::all(std::move(is_zero));
}

}  // namespace

Value causal_mask(Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& given_mask,
                  const Value& positions, std::optional<int64_t>) {
  const int64_t batch = embeddings.size(0);
  if (!given_mask && positions) {
    Value expanded = ops::expand(positions, {batch, positions.size(1)});
    look_for_packed_sequences(expanded);
  }
  (void)e;
  (void)job;
  return {};
}

}  // namespace plimsoll::pytorch
