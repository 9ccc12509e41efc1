#include "runtime/kernels/update_rules.h"

#include <cmath>

#include "runtime/kernels/rows.h"

namespace plimsoll::runtime {
namespace {

constexpr double kLeastSquare = 1e-30;  // Transformers' eps[0]

PLIMSOLL_WIDE void adam_wide(const Adam& a, float* p, const float* g, float* m, float* v, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    m[i] = m[i] + a.first.taken * (g[i] - m[i]);
    v[i] = a.second.kept * v[i] + a.second.taken * g[i] * g[i];
    p[i] = p[i] * a.decay - a.step * m[i] / (std::sqrt(v[i]) * a.root_correction + a.epsilon);
  }
}

PLIMSOLL_WIDE void lion_wide(const Lion& a, float* p, const float* g, float* m, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float c = a.direction.kept * m[i] + a.direction.taken * g[i];
    const float sign = static_cast<float>(c > 0) - static_cast<float>(c < 0);
    p[i] = p[i] * a.decay - a.step * sign;
    m[i] = a.momentum.kept * m[i] + a.momentum.taken * g[i];
  }
}

PLIMSOLL_WIDE void average_wide(const Decay& a, const double* statistics, float* moments, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    moments[i] = a.kept * moments[i] + a.taken * static_cast<float>(statistics[i] + kLeastSquare);
}

}  // namespace

Decay decay_of(double kept) {
  return {.kept = static_cast<float>(kept), .taken = static_cast<float>(1 - kept)};
}

Adam adam_of(const StepSettings& s) {
  const auto t = static_cast<double>(s.step);
  return {.decay = static_cast<float>(1 - s.learning_rate * s.weight_decay),
          .first = decay_of(s.beta1),
          .second = decay_of(s.beta2),
          .step = static_cast<float>(s.learning_rate / (1 - std::pow(s.beta1, t))),
          .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, t))),
          .epsilon = static_cast<float>(s.epsilon)};
}
void adam(const Adam& a, float* p, const float* g, float* m, float* v, int64_t n) {
  adam_wide(a, p, g, m, v, n);
}

Lion lion_of(const StepSettings& s) {
  return {.step = static_cast<float>(s.learning_rate),
          .decay = static_cast<float>(1 - s.learning_rate * s.weight_decay),
          .direction = decay_of(s.beta1),
          .momentum = decay_of(s.beta2)};
}
void lion(const Lion& a, float* p, const float* g, float* m, int64_t n) { lion_wide(a, p, g, m, n); }

Decay adafactor_decay_of(const StepSettings& s) {
  return decay_of(1 - std::pow(static_cast<double>(s.step), s.decay_rate));
}
void average(const Decay& a, const double* statistics, float* moments, int64_t n) {
  average_wide(a, statistics, moments, n);
}

}  // namespace plimsoll::runtime
