// Adafactor's step on flat units that ranks divide: a rank's part holds pieces of rows and columns, so their
// means are sums over the ranks, and so is the size of the update.
//
//   statistics  of the rank's gradients: shares of the mean square of each row and column,
//               squares of vectors; summed over the ranks, a unit's while the next are taken
//   moments     the states, averages of the statistics over the steps; a rank has all. They
//               give the factors of the update: one for each row and each column
//   norms       the rank's sum of squares of each tensor's update; summed over the ranks, of
//               all units at once
//   update      master -= rate x gradient x factors, by a smaller rate where their root mean
//               square is beyond the threshold
//
// What is summed is fp64, so that however the units are divided the sums are the same in fp32: bf16 copies
// of the masters would show another last bit as another 2^-9 of a weight.
// Source: Adafactor of transformers/optimization.py as its Trainer makes it (scale_parameter and
// relative_step false, no first moment), after Shazeer and Stern, arXiv:1804.04235. Does not model:
// parameters of more than two dims.
#pragma once

#include <functional>
#include <vector>

#include "frameworks/native/optimizers.h"
#include "program/recorder.h"

namespace plimsoll::native {

// Of one unit. Its tensors are flat.
struct AdafactorUnit {
  ModuleId module;
  std::vector<FactoredTensor> tensors;
  int64_t first = 0;  // of the unit's elements, the one with which the rank's part begins
  Value gradient;     // the part
  Value moments;      // laid out like the statistics
};

class AdafactorStep {
 public:
  // Sums a tensor over the ranks that divide the units; empty: nobody does.
  using Sum = std::function<void(const Value& tensor)>;
  // `tier` is where statistics and norms are.
  AdafactorStep(Recorder& recorder, const Architecture& architecture, Tier tier,
                std::vector<AdafactorUnit> units, Sum sum);

  // What comes before the updates: all moments, and the norms.
  void begin();
  // Of a unit, in their order: its master's part and, where there is one, the bf16 copy. Lets go of its
  // factors.
  void update(size_t unit, const Value& master, const Value& copy);

 private:
  Value make(int64_t elements, DType dtype) const;
  // Calls emit(tensor, piece of it) in the tensor's module.
  template <typename Emit>
  void for_each_tensor(size_t unit, Emit&& emit) const;
  void write_statistics(size_t unit);
  void write_factors(size_t unit);

  Recorder& r_;
  const Architecture& a_;
  Tier tier_;
  std::vector<AdafactorUnit> units_;
  Sum sum_;
  std::vector<Value> statistics_, factors_;  // by unit
  Value norms_;                              // of all tensors of all units
  int64_t next_norm_ = 0;
};

}  // namespace plimsoll::native
