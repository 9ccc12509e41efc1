// The arithmetic of the optimizers' steps on stretches of contiguous fp32 elements: what optimizer.cc and
// adafactor.cc do with a rank's part of a unit.
//
//   const Adam rule = adam_of(settings);
//   adam(rule, parameters, gradients, first_moments, second_moments, n);
//
// Factors are computed in fp64 and rounded once, as torch's scalars are. So is 1 - beta: taken of a rounded
// beta it would be wrong by 1e-5 of itself at 0.999, by 1e-3 at 0.99999.
#pragma once

#include <cstdint>

#include "runtime/step_settings.h"

namespace plimsoll::runtime {

// A mean over steps: kept * mean + taken * new value, where kept + taken is 1 before both are rounded.
struct Decay {
  float kept, taken;
};
Decay decay_of(double kept);

// As torch.optim.AdamW: decay of the weights first, then the moments, then the step. p: parameters, g:
// gradients, m, v: moments.
struct Adam {
  float decay;
  Decay first, second;
  float step, root_correction, epsilon;
};
Adam adam_of(const StepSettings& s);
void adam(const Adam& a, float* p, const float* g, float* m, float* v, int64_t n);

// Chen et al., arXiv:2302.06675, program 2: the step is a sign; decay as AdamW's.
struct Lion {
  float step, decay;
  Decay direction, momentum;
};
Lion lion_of(const StepSettings& s);
void lion(const Lion& a, float* p, const float* g, float* m, int64_t n);

// Adafactor's moments, as transformers.Adafactor: of statistics (fp64), to which its eps[0] is added.
Decay adafactor_decay_of(const StepSettings& s);
void average(const Decay& a, const double* statistics, float* moments, int64_t n);

}  // namespace plimsoll::runtime
