// The optimizer's step on flat shards, one pass over each.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cmath>
#include <vector>

#include "runtime/kernels/kernel.h"
#include "runtime/kernels/rows.h"
#include "runtime/kernels/update_rules.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kPerTask = int64_t{1} << 15;  // elements

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

// result (fp64), gradients...
void squared_norm(KernelCall& call) {
  double sum = 0;
  for (size_t i = 1; i < call.input_count(); ++i) sum += sum_of_squares(call.input(i));
  call.input(0).fill_(sum);
}

void check_norm(KernelCall& call) { call.result = call.host().check_norm(call.input(0).item<double>()); }

// As torch.nn.utils.clip_grad_norm_: gradient, sum of squares of all.
void clip_by_norm(KernelCall& call) {
  constexpr double kNotZero = 1e-6;
  const double norm = std::sqrt(call.input(1).item<double>());
  const double factor = call.attributes<ScalarAttr>().value / (norm + kNotZero);
  if (factor < 1) call.input(0).mul_(factor);
}

PLIMSOLL_WIDE void narrow(const float* from, Bf16* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
}

// The shards of one unit, from an element on.
struct Part {
  float* master;
  const float* gradient;
  std::array<float*, 2> states;
  int64_t count;
};

// Inputs: master, gradient, states... [, bf16 copy of the master]
template <typename Update>
void update_in_parts(KernelCall& call, size_t states, const Update& update) {
  const size_t copy_at = 2 + states;
  const at::Tensor master = call.input(0), gradient = call.input(1);
  std::array<at::Tensor, 2> moments;
  for (size_t i = 0; i < states; ++i) moments.at(i) = call.input(2 + i);
  const bool has_copy = call.input_count() > copy_at;
  const at::Tensor copy = has_copy ? call.input(copy_at) : at::Tensor();
  at::parallel_for(0, master.numel(), kPerTask, [&](int64_t first, int64_t last) {
    Part part{.master = floats_of(master) + first,
              .gradient = floats_of(gradient) + first,
              .states = {},
              .count = last - first};
    for (size_t i = 0; i < states; ++i) part.states.at(i) = floats_of(moments.at(i)) + first;
    update(part);
    if (has_copy) narrow(part.master, static_cast<Bf16*>(copy.mutable_data_ptr()) + first, part.count);
  });
}

void adamw_update(KernelCall& call) {
  const Adam a = adam_of(call.step());
  update_in_parts(call, 2, [&](const Part& part) {
    adam(a, part.master, part.gradient, part.states[0], part.states[1], part.count);
  });
}

// As torch.optim.SGD: the decay is part of the gradient; the momentum, zero at first, gathers gradients
// undamped.
struct Sgd {
  float step, decay, momentum;
};
PLIMSOLL_WIDE void sgd(const Sgd& a, float* p, const float* g, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p[i] -= a.step * (g[i] + a.decay * p[i]);
}
PLIMSOLL_WIDE void sgd_momentum(const Sgd& a, float* p, const float* g, float* m, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    m[i] = a.momentum * m[i] + g[i] + a.decay * p[i];
    p[i] -= a.step * m[i];
  }
}
Sgd sgd_of(const StepSettings& s) {
  return {.step = static_cast<float>(s.learning_rate),
          .decay = static_cast<float>(s.weight_decay),
          .momentum = static_cast<float>(s.momentum)};
}
void sgd_update(KernelCall& call) {
  const Sgd a = sgd_of(call.step());
  update_in_parts(call, 0, [&](const Part& part) { sgd(a, part.master, part.gradient, part.count); });
}
void sgd_momentum_update(KernelCall& call) {
  const Sgd a = sgd_of(call.step());
  update_in_parts(call, 1, [&](const Part& part) {
    sgd_momentum(a, part.master, part.gradient, part.states[0], part.count);
  });
}

void lion_update(KernelCall& call) {
  const Lion a = lion_of(call.step());
  update_in_parts(call, 1,
                  [&](const Part& part) { lion(a, part.master, part.gradient, part.states[0], part.count); });
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
  set(OpKind::kCheckNorm, {check_norm});
  set(OpKind::kClipByNorm, {clip_by_norm});
  set(OpKind::kAdamwUpdate, {adamw_update});
  set(OpKind::kSgdUpdate, {sgd_update});
  set(OpKind::kSgdMomentumUpdate, {sgd_momentum_update});
  set(OpKind::kLionUpdate, {lion_update});
  set(OpKind::kLoadWeights, {load_weights});
}

}  // namespace plimsoll::runtime
