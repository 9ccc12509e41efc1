// Adafactor's step (frameworks/native/adafactor.h) on one tensor, of which the rank has a piece: elements
// from the attribute's start on, as they lie in rows. A vector has no columns, and a statistic for each
// element. Sums are fp64 and taken in one order, whatever the threads. Those of pieces too, which ranks add:
// rounded to fp32 after that, they are the same however a tensor is divided (but for one in 2^29).
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "runtime/kernels/kernel.h"
#include "runtime/kernels/rows.h"
#include "runtime/kernels/update_rules.h"

namespace plimsoll::runtime {
namespace {

constexpr int64_t kPerTask = int64_t{1} << 15;  // elements
constexpr int64_t kColumns = 128;               // whose sums one task takes

double* doubles_of(const at::Tensor& t) { return static_cast<double*>(t.mutable_data_ptr()); }

// A stretch of one row: `count` elements from column `column` on, the first of them element `at` of the
// piece.
struct Stretch {
  int64_t row = 0, column = 0, at = 0, count = 0;
};

class Piece {
 public:
  Piece(KernelCall& call, size_t elements, size_t rows, size_t columns)
      : begin_(call.attributes<SliceAttr>().start),
        count_(call.input(elements).numel()),
        rows_(call.input(rows).numel()),
        columns_(call.input(columns).numel()) {}

  bool is_vector() const { return columns_ == 0; }
  int64_t begin() const { return begin_; }
  int64_t count() const { return count_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t elements_of_tensor() const { return is_vector() ? rows_ : rows_ * columns_; }

  // f(stretch) of the rows among the piece's elements [first, last), in order. REQUIRES a matrix.
  template <typename F>
  void for_each_row(int64_t first, int64_t last, F&& f) const {
    while (first < last) {
      const int64_t column = (begin_ + first) % columns_;
      const int64_t count = std::min(columns_ - column, last - first);
      f(Stretch{.row = (begin_ + first) / columns_, .column = column, .at = first, .count = count});
      first += count;
    }
  }

 private:
  int64_t begin_, count_, rows_, columns_;
};

PLIMSOLL_WIDE double sum_of_squares(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}
PLIMSOLL_WIDE void add_squares(const float* x, double* sums, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(x[i]) * x[i];
}

// ---- statistics ----

void mean_squares_of_rows(const Piece& p, const float* g, double* rows) {
  std::fill_n(rows, p.rows(), 0.0);
  const int64_t rows_per_task = std::max<int64_t>(1, kPerTask / p.columns());
  const int64_t first_row = p.begin() / p.columns();
  const int64_t last_row = (p.begin() + p.count() + p.columns() - 1) / p.columns();
  at::parallel_for(first_row, last_row, rows_per_task, [&](int64_t from, int64_t to) {
    const int64_t first = std::max<int64_t>(0, from * p.columns() - p.begin());
    const int64_t last = std::min(p.count(), to * p.columns() - p.begin());
    p.for_each_row(first, last, [&](const Stretch& s) {
      rows[s.row] = sum_of_squares(g + s.at, s.count) / static_cast<double>(p.columns());
    });
  });
}

void mean_squares_of_columns(const Piece& p, const float* g, double* columns) {
  const int64_t tasks = (p.columns() + kColumns - 1) / kColumns;
  at::parallel_for(0, tasks, 1, [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      const int64_t left = task * kColumns, right = std::min(p.columns(), left + kColumns);
      std::array<double, kColumns> sums{};
      p.for_each_row(0, p.count(), [&](const Stretch& s) {
        const int64_t l = std::max(left, s.column), r = std::min(right, s.column + s.count);
        if (l < r) add_squares(g + s.at + (l - s.column), sums.data() + (l - left), r - l);
      });
      for (int64_t c = left; c < right; ++c)
        columns[c] = sums.at(static_cast<size_t>(c - left)) / static_cast<double>(p.rows());
    }
  });
}

// Gradient; of rows (of a vector's elements), of columns: the piece's share.
void statistics(KernelCall& call) {
  const Piece p(call, 0, 1, 2);
  const float* const g = floats_of(call.input(0));
  double* const rows = doubles_of(call.input(1));
  if (p.is_vector()) {
    std::fill_n(rows, p.rows(), 0.0);
    for (int64_t i = 0; i < p.count(); ++i) rows[p.begin() + i] = static_cast<double>(g[i]) * g[i];
    return;
  }
  mean_squares_of_rows(p, g, rows);
  mean_squares_of_columns(p, g, doubles_of(call.input(2)));
}

// ---- moments ----

PLIMSOLL_WIDE void inverse_roots(const float* x, float scale, float* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = 1 / std::sqrt(x[i] * scale);
}
double mean_of(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum / static_cast<double>(n);
}

// Of rows and of columns: statistics, moments, factors. Those are the inverse roots of a row's moment over
// the rows' mean, and of a column's: squared, their product is the inverse of the estimate of a gradient's
// square.
void moments(KernelCall& call) {
  const Decay decay = adafactor_decay_of(call.step());
  const bool is_matrix = call.input(1).numel() > 0;
  for (const size_t of : {0, 1}) {
    const int64_t n = call.input(of).numel();
    float* const moment = floats_of(call.input(2 + of));
    average(decay, doubles_of(call.input(of)), moment, n);
    const double mean = is_matrix && of == 0 ? mean_of(moment, n) : 1;
    inverse_roots(moment, static_cast<float>(1 / mean), floats_of(call.input(4 + of)), n);
  }
}

// ---- norm and update ----

PLIMSOLL_WIDE double norm_in_row(const float* g, float row, const float* columns, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float u = row * columns[i] * g[i];
    sum += static_cast<double>(u) * u;
  }
  return sum;
}
PLIMSOLL_WIDE double norm_in_vector(const float* g, const float* factors, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float u = factors[i] * g[i];
    sum += static_cast<double>(u) * u;
  }
  return sum;
}

// The piece's sum of squares of the update; gradient, factors.
void norm(KernelCall& call) {
  const Piece p(call, 1, 2, 3);
  const float* const g = floats_of(call.input(1));
  const float *const rows = floats_of(call.input(2)), *const columns = floats_of(call.input(3));
  const int64_t parts = (p.count() + kPerTask - 1) / kPerTask;
  std::vector<double> sums(static_cast<size_t>(parts));
  at::parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; ++part) {
      const int64_t first = part * kPerTask, last = std::min(p.count(), first + kPerTask);
      double& sum = sums[static_cast<size_t>(part)];
      if (p.is_vector())
        sum = norm_in_vector(g + first, rows + p.begin() + first, last - first);
      else
        p.for_each_row(first, last, [&](const Stretch& s) {
          sum += norm_in_row(g + s.at, rows[s.row], columns + s.column, s.count);
        });
    }
  });
  double all = 0;
  for (const double sum : sums) all += sum;
  *doubles_of(call.input(0)) = all;
}

struct Step {
  float decay = 1, size = 0;
};
PLIMSOLL_WIDE void step_in_row(const Step& a, float* p, const float* g, float row, const float* columns,
                               int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p[i] = p[i] * a.decay - a.size * (row * columns[i] * g[i]);
}
PLIMSOLL_WIDE void step_in_vector(const Step& a, float* p, const float* g, const float* factors, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p[i] = p[i] * a.decay - a.size * (factors[i] * g[i]);
}
PLIMSOLL_WIDE void narrow(const float* from, Bf16* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(to[i], from[i]);
}

// Master, gradient, sum of squares of the update, factors [, bf16 copy of the master].
void update(KernelCall& call) {
  constexpr size_t kCopy = 5;
  const Piece p(call, 0, 3, 4);
  const StepSettings& s = call.step();
  const double rms = std::sqrt(*doubles_of(call.input(2)) / static_cast<double>(p.elements_of_tensor()));
  const Step a{.decay = static_cast<float>(1 - s.learning_rate * s.weight_decay),
               .size = static_cast<float>(s.learning_rate / std::max(1.0, rms / s.clip_threshold))};
  float* const master = floats_of(call.input(0));
  const float* const g = floats_of(call.input(1));
  const float *const rows = floats_of(call.input(3)), *const columns = floats_of(call.input(4));
  const bool has_copy = call.input_count() > kCopy;
  auto* const copy = has_copy ? static_cast<Bf16*>(call.input(kCopy).mutable_data_ptr()) : nullptr;
  at::parallel_for(0, p.count(), kPerTask, [&](int64_t first, int64_t last) {
    if (p.is_vector())
      step_in_vector(a, master + first, g + first, rows + p.begin() + first, last - first);
    else
      p.for_each_row(first, last, [&](const Stretch& r) {
        step_in_row(a, master + r.at, g + r.at, rows[r.row], columns + r.column, r.count);
      });
    if (has_copy) narrow(master + first, copy + first, last - first);
  });
}

}  // namespace

void add_adafactor_kernels(SetKernel set) {
  set(OpKind::kAdafactorStatistics, {statistics});
  set(OpKind::kAdafactorMoments, {moments});
  set(OpKind::kAdafactorNorm, {norm});
  set(OpKind::kAdafactorUpdate, {update});
}

}  // namespace plimsoll::runtime
