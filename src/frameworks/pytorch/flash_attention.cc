// attn_implementation "flash_attention_2": the package flash_attn, which takes windows, soft caps and grouped
// heads itself. Source: transformers/integrations/flash_attention.py, modeling_flash_attention_utils.py.
#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {
namespace {

// _is_packed_sequence: asked in every layer when the batch is one sequence.
void look_for_packed_sequence(const Value& positions, int64_t batch) {
  if (batch != 1 || positions.size(1) == 1) return;
  Value counted = ops::arange(positions.recorder(), positions.size(1));
  counted = ops::add(std::move(counted), ops::minimum(positions));
  Value distance = ops::unary(OpKind::kAbs, ops::sub(counted, positions));
  ops::sum(std::move(distance), {0, 1}, false).reset();
}

}  // namespace

Attended flash_attention_2(Eager& e, const AttentionCall& call, const Value& q, const Value& k,
                           const Value& v) {
  Value query = ops::transpose(q, 1, 2), key = ops::transpose(k, 1, 2), value = ops::transpose(v, 1, 2);
  const int64_t head_dim = query.size(3), value_dim = value.size(3);
  if (value_dim != head_dim) value = ops::pad(value, 0, head_dim - value_dim);
  if (query.dtype() == DType::kFloat32) {  // fa_peft_integration_check, under autocast
    query = e.low_precision(query);
    key = e.low_precision(key);
    value = e.low_precision(value);
  }
  if (call.positions) look_for_packed_sequence(*call.positions, query.size(0));
  const int64_t missing = round_up(head_dim, int64_t{8}) - head_dim;
  if (missing > 0)
    for (Value* x : {&query, &key, &value}) *x = ops::pad(*x, 0, missing);
  Value out = ops::flash_attention_package(query, key, value, call.is_causal, call.dropout);
  if (missing > 0) out = ops::slice(out, -1, 0, head_dim);
  if (value_dim != head_dim) out = ops::slice(out, -1, 0, value_dim);
  return {.output = std::move(out), .weights = {}};
}

}  // namespace plimsoll::pytorch
