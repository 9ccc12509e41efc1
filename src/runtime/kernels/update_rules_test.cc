// Single steps against the same arithmetic in fp64, where 1 - beta is small.
#include "runtime/kernels/update_rules.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace plimsoll::runtime {
namespace {

constexpr int64_t kElements = 37;   // no multiple of a vector's
constexpr double kRounding = 1e-6;  // some roundings of fp32, relative

// Of either sign, over some orders of magnitude.
std::vector<float> numbers(double scale) {
  std::vector<float> all;
  for (int64_t i = 0; i < kElements; ++i)
    all.push_back(static_cast<float>(scale * (i % 2 == 0 ? 1 : -1) * std::pow(1.3, static_cast<double>(i))));
  return all;
}

constexpr std::array<double, 4> kBetas = {0.95, 0.999, 0.9999, 0.99999};

// From moments of zero, where all of the new ones is 1 - beta; and late, where a step is m / sqrt(v).
TEST(Adam, IsTheReferenceInDouble) {
  for (const double beta : kBetas)
    for (const int64_t step : {1, 100000}) {
      const StepSettings s{.step = step, .learning_rate = 1e-3, .beta1 = beta, .beta2 = beta};
      std::vector<float> p(kElements, 0), m(kElements, 0), v(kElements, 0);
      const std::vector<float> g = numbers(1e-3);
      adam(adam_of(s), p.data(), g.data(), m.data(), v.data(), kElements);
      const double t = static_cast<double>(step);
      for (size_t i = 0; i < p.size(); ++i) {
        const double gradient = g[i], first = (1 - beta) * gradient,
                     second = (1 - beta) * gradient * gradient;
        const double change = s.learning_rate * first / (1 - std::pow(beta, t)) /
                              (std::sqrt(second) / std::sqrt(1 - std::pow(beta, t)) + s.epsilon);
        EXPECT_NEAR(m[i] / first, 1, kRounding) << beta << " " << step << " " << i;
        EXPECT_NEAR(v[i] / second, 1, kRounding) << beta << " " << step << " " << i;
        EXPECT_NEAR(p[i] / -change, 1, kRounding) << beta << " " << step << " " << i;
      }
    }
}

TEST(Adam, KeepsWhatItHadAndDecaysWeights) {
  const StepSettings s{.step = 7, .learning_rate = 0.01, .weight_decay = 0.1};
  std::vector<float> p = numbers(1), m = numbers(0.1), v(kElements, 4);
  const std::vector<float> before = p, m_before = m, g = numbers(0.2);
  adam(adam_of(s), p.data(), g.data(), m.data(), v.data(), kElements);
  for (size_t i = 0; i < p.size(); ++i) {
    const double first = s.beta1 * m_before[i] + (1 - s.beta1) * g[i];
    const double second = s.beta2 * 4 + (1 - s.beta2) * static_cast<double>(g[i]) * g[i];
    const double change = s.learning_rate * first / (1 - std::pow(s.beta1, 7)) /
                          (std::sqrt(second / (1 - std::pow(s.beta2, 7))) + s.epsilon);
    EXPECT_NEAR(m[i] / first, 1, kRounding) << i;
    EXPECT_NEAR(v[i] / second, 1, kRounding) << i;
    EXPECT_NEAR(p[i] / (before[i] * (1 - s.learning_rate * s.weight_decay) - change), 1, kRounding) << i;
  }
}

TEST(Lion, IsTheReferenceInDouble) {
  for (const double beta : kBetas) {
    const StepSettings s{.learning_rate = 1e-3, .beta1 = beta, .beta2 = beta, .weight_decay = 0};
    std::vector<float> p(kElements, 0), m(kElements, 0);
    const std::vector<float> g = numbers(1e-3);
    lion(lion_of(s), p.data(), g.data(), m.data(), kElements);
    for (size_t i = 0; i < p.size(); ++i) {
      EXPECT_FLOAT_EQ(p[i], g[i] > 0 ? -1e-3F : 1e-3F);
      EXPECT_NEAR(m[i] / ((1 - beta) * g[i]), 1, kRounding) << beta << " " << i;
    }
  }
}

// What a late step takes of its statistics is step ^ decay_rate.
TEST(Adafactor, AveragesAreTheReferenceInDouble) {
  for (const int64_t step : {1, 2, 1000, 1000000}) {
    const StepSettings s{.step = step};
    std::vector<float> moments(kElements, 0);
    std::vector<double> statistics;
    for (const float x : numbers(1e-3)) statistics.push_back(static_cast<double>(x) * x);
    average(adafactor_decay_of(s), statistics.data(), moments.data(), kElements);
    const double taken = std::pow(static_cast<double>(step), s.decay_rate);
    for (size_t i = 0; i < moments.size(); ++i)
      EXPECT_NEAR(moments[i] / (taken * (statistics[i] + 1e-30)), 1, kRounding) << step << " " << i;
  }
}

}  // namespace
}  // namespace plimsoll::runtime
