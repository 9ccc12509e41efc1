// The optimizer's step on flat shards, one pass over each.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <cmath>
#include <vector>

#include "runtime/kernels/kernel.h"
#include "runtime/kernels/rows.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kPerTask = int64_t{1} << 15;  // elements

float* floats_of(const at::Tensor& t) { return static_cast<float*>(t.mutable_data_ptr()); }

// The sum of squares of parts of fixed size, added in order: the same whatever the threads.
double sum_of_squares(const at::Tensor& t) {
  const int64_t n = t.numel(), parts = (n + kPerTask - 1) / kPerTask;
  std::vector<double> sums(static_cast<size_t>(parts));
  const float* const x = floats_of(t);
  at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = part * kPerTask; i < std::min(n, (part + 1) * kPerTask); ++i)
        sum += static_cast<double>(x[i]) * x[i];
      sums[static_cast<size_t>(part)] = sum;
    }
  });
  double all = 0;
  for (double sum : sums) all += sum;
  return all;
}

// result, gradients...
void squared_norm(KernelCall& call) {
  double sum = 0;
  for (size_t i = 1; i < call.input_count(); ++i) sum += sum_of_squares(call.input(i));
  call.input(0).fill_(sum);
}

// As torch.nn.utils.clip_grad_norm_: gradient, sum of squares of all.
void clip_by_norm(KernelCall& call) {
  constexpr double kNotZero = 1e-6;
  const double norm = std::sqrt(static_cast<double>(call.input(1).item<float>()));
  const double factor = call.attributes<ScalarAttr>().value / (norm + kNotZero);
  if (factor < 1) call.input(0).mul_(factor);
}

// As torch.optim.AdamW: decay first, then the moments, then the step.
struct Adam {
  float decay, beta1, beta2, step, root_correction, epsilon;
};
PLIMSOLL_WIDE void adam(const Adam& a, float* p, const float* g, float* m, float* v, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    m[i] = m[i] + (1 - a.beta1) * (g[i] - m[i]);
    v[i] = a.beta2 * v[i] + (1 - a.beta2) * g[i] * g[i];
    p[i] = p[i] * a.decay - a.step * m[i] / (std::sqrt(v[i]) * a.root_correction + a.epsilon);
  }
}
PLIMSOLL_WIDE void narrow(const float* from, Bf16* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
}

// master, gradient, first and second moment [, bf16 copy of the master]
void optimizer_update(KernelCall& call) {
  const StepSettings& s = call.step();
  const auto t = static_cast<double>(s.step);
  const Adam a{.decay = static_cast<float>(1 - s.learning_rate * s.weight_decay),
               .beta1 = static_cast<float>(s.beta1),
               .beta2 = static_cast<float>(s.beta2),
               .step = static_cast<float>(s.learning_rate / (1 - std::pow(s.beta1, t))),
               .root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(s.beta2, t))),
               .epsilon = static_cast<float>(s.epsilon)};
  constexpr size_t kCopy = 4;
  const at::Tensor p = call.input(0), g = call.input(1), m = call.input(2), v = call.input(3);
  const bool has_copy = call.input_count() > kCopy;
  const at::Tensor copy = has_copy ? call.input(kCopy) : at::Tensor();
  at::parallel_for(0, p.numel(), kPerTask, [&](int64_t first, int64_t last) {
    const int64_t n = last - first;
    adam(a, floats_of(p) + first, floats_of(g) + first, floats_of(m) + first, floats_of(v) + first, n);
    if (has_copy) narrow(floats_of(p) + first, static_cast<Bf16*>(copy.mutable_data_ptr()) + first, n);
  });
}

// whole, its views in the parameters' shapes...
void load_weights(KernelCall& call) {
  at::Tensor whole = call.input(0);
  std::vector<at::Tensor> parts;
  for (size_t i = 1; i < call.input_count(); ++i) parts.push_back(call.input(i));
  whole.zero_();  // the padding between and behind
  call.result = call.host().load_weights(call.module_name(), whole, parts);
}

}  // namespace

void add_optimizer_kernels(SetKernel set) {
  set(OpKind::kSquaredNorm, {squared_norm});
  set(OpKind::kClipByNorm, {clip_by_norm});
  set(OpKind::kOptimizerUpdate, {optimizer_update});
  set(OpKind::kLoadWeights, {load_weights});
}

}  // namespace plimsoll::runtime
