// The optimizers of the native runtime: what each keeps of a unit from step to step, and the op that updates
// the rank's part of it (kernels in runtime/kernels/).
//
//   state_tensors(OptimizerKind::kAdamW, unit, a)      // two, laid out and divided as the unit
//   state_tensors(OptimizerKind::kAdafactor, unit, a)  // one, means of rows and columns, whole on every rank
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frameworks/native/units.h"
#include "model/architecture.h"
#include "program/op.h"
#include "strategy/job.h"

namespace plimsoll::native {

struct OptimizerRow {
  OptimizerKind kind = OptimizerKind::kAdamW;
  // Inputs: master, gradient, states... [, bf16 copy of the master]; of kAdafactor those in adafactor.h.
  OpKind update = OpKind::kAdamwUpdate;
  // As checkpoints call them. Each is a tensor like the unit's part, but kAdafactor's.
  std::vector<std::string_view> states;
};

// REQUIRES a kind that check_native lets pass (strategy/native_checks.cc).
const OptimizerRow& optimizer_row(OptimizerKind kind);

// One flat fp32 tensor that an optimizer keeps of a unit.
struct StateTensor {
  std::vector<UnitTensor> tensors;      // its stretches, each a state of one parameter
  std::vector<std::string_view> names;  // of these states
  int64_t elements = 0;
  bool is_divided = true;  // among the ranks that divide the unit; else each has all of it
};
std::vector<StateTensor> state_tensors(OptimizerKind kind, const Unit& unit,
                                       const Architecture& architecture);

// A tensor of a unit as Adafactor sees it: a matrix, or a vector (no columns), which isn't factored.
struct FactoredTensor {
  UnitTensor tensor;
  int64_t rows = 0, columns = 0;
  // Of its statistics among the unit's: first one for each row or for each element of a vector, then one for
  // each column.
  int64_t offset = 0;
};
// REQUIRES parameters of one or two dims.
std::vector<FactoredTensor> factored_tensors(const Unit& unit, const Architecture& architecture);

}  // namespace plimsoll::native
