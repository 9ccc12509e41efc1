#include "frameworks/native/optimizers.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace plimsoll::native {
namespace {

const std::array<OptimizerRow, 5>& rows() {
  static const std::array<OptimizerRow, 5> all = {{
      {.kind = OptimizerKind::kAdamW, .update = OpKind::kAdamwUpdate, .states = {"exp_avg", "exp_avg_sq"}},
      {.kind = OptimizerKind::kSgd, .update = OpKind::kSgdUpdate, .states = {}},
      {.kind = OptimizerKind::kSgdMomentum, .update = OpKind::kSgdMomentumUpdate, .states = {"state_0"}},
      {.kind = OptimizerKind::kLion, .update = OpKind::kLionUpdate, .states = {"state_0"}},
      {.kind = OptimizerKind::kAdafactor,
       .update = OpKind::kAdafactorUpdate,
       .states = {"exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq"}},
  }};
  return all;
}

StateTensor like_unit(const Unit& unit, std::string_view name) {
  return {.tensors = unit.tensors,
          .names = std::vector<std::string_view>(unit.tensors.size(), name),
          .elements = unit.elements};
}

StateTensor statistics_of(const Unit& unit, const Architecture& architecture, const OptimizerRow& row) {
  StateTensor state{.is_divided = false};
  const auto append = [&](size_t parameter, std::string_view name, int64_t elements) {
    state.tensors.push_back({.parameter = parameter, .offset = state.elements, .elements = elements});
    state.names.push_back(name);
    state.elements += elements;
  };
  for (const FactoredTensor& t : factored_tensors(unit, architecture)) {
    const bool is_matrix = t.columns > 0;
    append(t.tensor.parameter, is_matrix ? row.states[0] : row.states[2], t.rows);
    if (is_matrix) append(t.tensor.parameter, row.states[1], t.columns);
  }
  return state;
}

}  // namespace

const OptimizerRow& optimizer_row(OptimizerKind kind) {
  const auto* const found = std::ranges::find(rows(), kind, &OptimizerRow::kind);
  assert(found != rows().end() && "an optimizer that framework native does not have");
  return *found;
}

std::vector<StateTensor> state_tensors(OptimizerKind kind, const Unit& unit,
                                       const Architecture& architecture) {
  const OptimizerRow& row = optimizer_row(kind);
  if (kind == OptimizerKind::kAdafactor) return {statistics_of(unit, architecture, row)};
  std::vector<StateTensor> all;
  for (const std::string_view name : row.states) all.push_back(like_unit(unit, name));
  return all;
}

std::vector<FactoredTensor> factored_tensors(const Unit& unit, const Architecture& architecture) {
  std::vector<FactoredTensor> all;
  int64_t end = 0;
  for (const UnitTensor& t : unit.tensors) {
    const std::vector<int64_t>& shape = architecture.parameters[t.parameter].shape;
    assert(shape.size() == 1 || shape.size() == 2);
    all.push_back(
        {.tensor = t, .rows = shape[0], .columns = shape.size() == 2 ? shape[1] : 0, .offset = end});
    end += all.back().rows + all.back().columns;
  }
  return all;
}

}  // namespace plimsoll::native
