#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

Value bidirectional_mask(const Value& given_mask) {
  if (!given_mask) return {};
  const Value is_token = ops::cast(given_mask, DType::kBool);
  const Value all = ops::all(is_token);  // read by the host: all tokens count, so the mask is skipped
  return {};
}

}  // namespace plimsoll::pytorch
