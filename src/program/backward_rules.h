// The rows of the op table, by family of ops. See op_table.h.
#pragma once

#include <functional>

#include "program/op_table.h"

namespace plimsoll {

using SetRow = std::function<void(OpKind kind, OpRow row)>;

void add_view_rows(const SetRow& set);
void add_pointwise_rows(const SetRow& set);
void add_reduction_rows(const SetRow& set);
void add_indexing_rows(const SetRow& set);
void add_network_rows(const SetRow& set);
void add_native_rows(const SetRow& set);
void add_megatron_rows(const SetRow& set);
void add_megatron_expert_rows(const SetRow& set);

// Rules that several families use.
inline Saves keeps_nothing(const Program&, const Op&, const InputSet&) { return {}; }
inline Saves keeps_output(const Program&, const Op&, const InputSet&) { return {.outputs = 1}; }
inline Saves keeps_input(const Program&, const Op&, const InputSet&) { return {.inputs = 1}; }
// Each of two operands is kept when the other wants a gradient.
inline Saves keeps_other_operand(const Program&, const Op&, const InputSet& needed) {
  return {.inputs = static_cast<uint16_t>((needed.contains(0) ? 2U : 0U) | (needed.contains(1) ? 1U : 0U))};
}
inline void passes_on(BackwardCall& call) {
  for (size_t i = call.op.input_count; i-- > 0;)
    if (call.needs(i)) call.results[i] = call.gradient();
}

}  // namespace plimsoll
