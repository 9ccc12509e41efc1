#include "strategy/routing_load.h"

#include <algorithm>
#include <cmath>

namespace plimsoll {
namespace {

constexpr int kMostTerms = 10'000;
constexpr double kTolerance = 1e-14;
constexpr double kTiny = 1e-300;

// std::lgamma writes a global (signgam); the arguments here are positive. Source: Lanczos' approximation, g =
// 7, n = 9.
double log_gamma(double x) {
  constexpr double kCoefficients[] = {0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
                                      771.32342877765313,   -176.61502916214059,   12.507343278686905,
                                      -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  if (x < 0.5) return log_gamma(x + 1) - std::log(x);
  const double shifted = x - 1, t = shifted + 7.5;
  double sum = kCoefficients[0];
  for (int i = 1; i < 9; ++i) sum += kCoefficients[i] / (shifted + i);
  return 0.91893853320467274178 + (shifted + 0.5) * std::log(t) - t + std::log(sum);
}

// Lentz's method on the continued fraction of the incomplete beta function.
double beta_fraction(double a, double b, double x) {
  const auto bounded = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / bounded(1 - (a + b) * x / (a + 1)), result = d;
  for (int m = 1; m < kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / bounded(1 + even * d);
    c = bounded(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / bounded(1 + odd * d);
    c = bounded(1 + odd / c);
    const double change = d * c;
    result *= change;
    if (std::abs(change - 1) < kTolerance) break;
  }
  return result;
}

// The x in [low, high] where a rising function reaches `value`.
template <typename F>
double inverse(F&& rising, double value, double low, double high) {
  constexpr int kHalvings = 200;
  for (int i = 0; i < kHalvings && high - low > 1e-13 * std::max(1.0, low); ++i) {
    const double middle = (low + high) / 2;
    (rising(middle) < value ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Of `experts` independent Gamma variables of mean 1: the mean of the largest.
double mean_of_largest(double shape, double experts) {
  constexpr int kSteps = 4000;
  const double end = 1 + 40 / std::sqrt(shape) + 40 / shape;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {  // the integral of 1 - F^experts
    const double x = end * (i + 0.5) / kSteps;
    sum += 1 - std::pow(gamma_probability(shape, shape * x), experts);
  }
  return sum * end / kSteps;
}

}  // namespace

double gamma_probability(double a, double x) {
  if (x <= 0) return 0;
  const double front = std::exp(a * std::log(x) - x - log_gamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < kMostTerms && term > sum * kTolerance; ++n) sum += term *= x / (a + n);
    return std::min(1.0, sum * front);
  }
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, result = d;
  for (int i = 1; i < kMostTerms; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    const double change = d * c;
    result *= change;
    if (std::abs(change - 1) < kTolerance) break;
  }
  return std::max(0.0, 1 - front * result);
}

double beta_probability(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
  return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double routing_load(const RoutingModel& m, double quantile) {
  if (m.max_violation <= 0 || m.local >= m.experts) return 1;
  const auto experts = static_cast<double>(m.experts), local = static_cast<double>(m.local);
  // The smaller the shape, the fuller the fullest: searched on a scale of logarithms.
  const double log_shape =
      -inverse([&](double minus_log) { return mean_of_largest(std::exp(-minus_log), experts); },
               1 + m.max_violation, -std::log(1e6), -std::log(1e-2));
  const double shape = std::exp(log_shape);
  const double share =
      inverse([&](double x) { return beta_probability(shape * local, shape * (experts - local), x); },
              quantile, 0, 1);
  const double most = std::min(1.0, local / static_cast<double>(m.per_token));
  return std::min(share, most) * experts / local;
}

}  // namespace plimsoll
