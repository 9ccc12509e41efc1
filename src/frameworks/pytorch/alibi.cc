#include <algorithm>
#include <bit>

#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {

AlibiSlopes alibi_slopes(Recorder& r, int64_t heads) {
  AlibiSlopes made;
  const auto powers_of = [&](int64_t count) {
    const Value base = made.locals.emplace_back(ops::full(r, {}, DType::kFloat32));
    const Value exponents = made.locals.emplace_back(ops::arange(r, count, DType::kInt32));
    return ops::binary(OpKind::kPowTensor, base, exponents);
  };
  const auto power_of_two = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  made.slopes = powers_of(power_of_two);
  if (power_of_two != heads)
    made.slopes = ops::cat({made.slopes, powers_of(std::min(power_of_two, heads - power_of_two))}, 0);
  return made;
}

}  // namespace plimsoll::pytorch
