// Kernels of our own, where ATen has none on CPUs or needs several passes: RMS norm, rotary positions, and
// the cross-entropy whose gradient overwrites the logits.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>

#include <algorithm>
#include <cmath>

#include "runtime/kernels/kernel.h"
#include "runtime/kernels/rows.h"

namespace plimsoll::runtime {
namespace {

template <typename T>
T* data_of(const at::Tensor& t) {
  return static_cast<T*>(t.mutable_data_ptr());
}
template <typename F>
void with_element_type(const at::Tensor& t, F&& f) {
  if (t.scalar_type() == at::kBFloat16) return f(Bf16{});
  TORCH_CHECK(t.scalar_type() == at::kFloat, "a kernel for fp32 and bf16 was given ", t.scalar_type());
  f(float{});
}

constexpr int64_t kRowsPerTask = 16;

// ---- RMS norm: y = x * w / sqrt(mean(x^2) + epsilon), in fp32 ----

template <typename T>
float sum_of_squares(const T* x, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += load(x[i]) * load(x[i]);
  return sum;
}
template <typename T>
void scale_row(const T* x, const T* w, float scale, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    // Hugging Face rounds the normed value before it multiplies.
    T normed;
    store(normed, load(x[i]) * scale);
    store(y[i], load(normed) * load(w[i]));
  }
}

PLIMSOLL_WIDE void norm_row(const float* x, const float* w, float* y, float* scale, float epsilon,
                            int64_t n) {
  *scale = 1 / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + epsilon);
  scale_row(x, w, *scale, y, n);
}
PLIMSOLL_WIDE void norm_row(const Bf16* x, const Bf16* w, Bf16* y, float* scale, float epsilon, int64_t n) {
  *scale = 1 / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + epsilon);
  scale_row(x, w, *scale, y, n);
}

void rms_norm(KernelCall& call) {
  const at::Tensor x = call.input(0), weight = call.input(1), y = call.output(0), scale = call.output(1);
  const auto epsilon = static_cast<float>(call.attributes<ScalarAttr>().value);
  const int64_t n = weight.numel(), rows = x.numel() / n;
  TORCH_CHECK(x.is_contiguous(), "rms_norm of a tensor with gaps");
  with_element_type(x, [&]<typename T>(T) {
    at::parallel_for(0, rows, kRowsPerTask, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r)
        norm_row(data_of<T>(x) + r * n, data_of<T>(weight), data_of<T>(y) + r * n, data_of<float>(scale) + r,
                 epsilon, n);
    });
  });
}

// dx = s * (w g - x s^2 mean(w g x)); dw += g x s
template <typename T>
inline void norm_row_backward_of(const T* g, const T* x, const T* w, float s, T* dx, float* dw, int64_t n) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t i = 0; i < n; ++i) dot += load(w[i]) * load(g[i]) * load(x[i]);
  const float k = dot * s * s / static_cast<float>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float gi = load(g[i]), xi = load(x[i]);
    dw[i] += gi * xi * s;
    store(dx[i], s * (load(w[i]) * gi - xi * k));
  }
}
PLIMSOLL_WIDE void norm_row_backward(const float* g, const float* x, const float* w, float s, float* dx,
                                     float* dw, int64_t n) {
  norm_row_backward_of(g, x, w, s, dx, dw, n);
}
PLIMSOLL_WIDE void norm_row_backward(const Bf16* g, const Bf16* x, const Bf16* w, float s, Bf16* dx,
                                     float* dw, int64_t n) {
  norm_row_backward_of(g, x, w, s, dx, dw, n);
}

// The rows are summed in a fixed number of parts, so that the result doesn't depend on the threads.
constexpr int64_t kParts = 16;

// gradient, x, weight, scale of each row -> of x, of weight
void rms_norm_backward(KernelCall& call) {
  const at::Tensor x = call.input(1), weight = call.input(2), scale = call.input(3);
  const at::Tensor g = call.input(0).contiguous(), dx = call.output(0), dw = call.output(1);
  const int64_t n = weight.numel(), rows = x.numel() / n;
  const at::Tensor sums = at::empty({kParts, n}, x.options().dtype(at::kFloat)).zero_();
  with_element_type(x, [&]<typename T>(T) {
    at::parallel_for(0, kParts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part)
        for (int64_t r = rows * part / kParts; r < rows * (part + 1) / kParts; ++r)
          norm_row_backward(data_of<T>(g) + r * n, data_of<T>(x) + r * n, data_of<T>(weight),
                            data_of<float>(scale)[r], data_of<T>(dx) + r * n, data_of<float>(sums) + part * n,
                            n);
    });
  });
  dw.copy_(sums.sum(0));
}

// ---- rotary positions ----

// Element i and its partner half a head further are turned by the angle i of the position.
template <typename T>
inline void turn_head_of(const T* x, const float* cos, const float* sin, float sign, T* y, int64_t half) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float a = load(x[i]), b = load(x[half + i]), s = sign * sin[i];
    store(y[i], a * cos[i] - b * s);
    store(y[half + i], b * cos[i] + a * s);
  }
}
PLIMSOLL_WIDE void turn_head(const float* x, const float* cos, const float* sin, float sign, float* y,
                             int64_t half) {
  turn_head_of(x, cos, sin, sign, y, half);
}
PLIMSOLL_WIDE void turn_head(const Bf16* x, const float* cos, const float* sin, float sign, Bf16* y,
                             int64_t half) {
  turn_head_of(x, cos, sin, sign, y, half);
}

// x [b, s, heads, d], cos and sin [s, d / 2]
void rotary(KernelCall& call) {
  const at::Tensor x = call.input(0), cos = call.input(1), sin = call.input(2), y = call.output(0);
  const auto sign = static_cast<float>(call.attributes<ScalarAttr>().value);
  const int64_t s = x.size(1), heads = x.size(2), d = x.size(3), half = d / 2;
  TORCH_CHECK(x.stride(3) == 1 && cos.size(1) == half,
              "rotary of heads with gaps, or of a part of the heads");
  with_element_type(x, [&]<typename T>(T) {
    at::parallel_for(0, x.size(0) * s, kRowsPerTask, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row)
        for (int64_t h = 0; h < heads; ++h)
          turn_head(data_of<T>(x) + row / s * x.stride(0) + row % s * x.stride(1) + h * x.stride(2),
                    data_of<float>(cos) + row % s * half, data_of<float>(sin) + row % s * half, sign,
                    data_of<T>(y) + (row * heads + h) * d, half);
    });
  });
}

void rotary_table(KernelCall& call) {
  at::Tensor cos = call.input(0), sin = call.input(1);
  call.result = call.host().fill_rotary_table(cos, sin);
}

// ---- cross-entropy ----

// Rows are widened to fp32 so many elements at a time: scratch stays small whatever the vocabulary.
constexpr int64_t kWidenedElements = int64_t{1} << 20;
int64_t rows_at_a_time(const at::Tensor& logits) {
  return std::max<int64_t>(1, kWidenedElements / logits.size(1));
}

void cross_entropy(KernelCall& call) {
  const at::Tensor logits = call.input(0), labels = call.input(1), loss = call.output(0),
                   lse = call.output(1);
  const double scale = call.attributes<ScalarAttr>().value;
  double sum = 0;
  for (int64_t first = 0, step = rows_at_a_time(logits); first < logits.size(0); first += step) {
    const int64_t count = std::min(step, logits.size(0) - first);
    const at::Tensor rows = logits.narrow(0, first, count).to(at::kFloat);
    at::Tensor rows_lse = lse.narrow(0, first, count);
    at::logsumexp_out(rows_lse, rows, 1);
    const at::Tensor chosen = rows.gather(1, labels.narrow(0, first, count).unsqueeze(1)).squeeze(1);
    sum += rows_lse.sub(chosen).sum(at::kDouble).item<double>();
  }
  loss.fill_(sum * scale);
}

// logits, gradient of the loss, labels, log-sum-exp: the logits become their gradient.
void cross_entropy_backward(KernelCall& call) {
  const at::Tensor logits = call.input(0), labels = call.input(2), lse = call.input(3);
  const double scale = call.attributes<ScalarAttr>().value * call.input(1).item<float>();
  for (int64_t first = 0, step = rows_at_a_time(logits); first < logits.size(0); first += step) {
    const int64_t count = std::min(step, logits.size(0) - first);
    at::Tensor rows = logits.narrow(0, first, count);
    at::Tensor wide = rows.to(at::kFloat);  // `rows` itself in fp32
    wide.sub_(lse.narrow(0, first, count).unsqueeze(1)).exp_();
    const at::Tensor index = labels.narrow(0, first, count).unsqueeze(1);
    wide.scatter_add_(1, index, at::empty({count, 1}, wide.options()).fill_(-1));
    wide.mul_(scale);
    if (wide.data_ptr() != rows.data_ptr()) rows.copy_(wide);
  }
}

}  // namespace

void add_fused_kernels(SetKernel set) {
  set(OpKind::kRmsNorm, {rms_norm});
  set(OpKind::kRmsNormBackward, {rms_norm_backward});
  set(OpKind::kRotary, {rotary});
  set(OpKind::kRotaryTable, {rotary_table});
  set(OpKind::kCrossEntropy, {cross_entropy});
  set(OpKind::kCrossEntropyBackward, {cross_entropy_backward});
}

}  // namespace plimsoll::runtime
