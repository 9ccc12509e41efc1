// How many rows a rank's experts get, when tokens don't spread evenly over the experts.
//
// Model: the experts' shares of the rows are a symmetric Dirichlet distribution. What one of the ranks gets,
// with `local` of the experts, is then a Beta distribution; its one parameter follows from how far the
// fullest expert is above the mean ("maximal violation", what balancing methods are measured by).
//
//   routing_load({.experts = 64, .local = 8, .per_token = 6, .max_violation = 0.72}, 0.99);   // 1.5
//
// Never more than all tokens can bring: each takes a local expert at most once. Source of the measure: Wang
// et al., Auxiliary-Loss-Free Load Balancing, arXiv:2408.15664, section 4.1 (MaxVio). Does not model: that
// layers differ, or that one layer's load tells of the next one's.
#pragma once

#include <cstdint>

namespace plimsoll {

struct RoutingModel {
  int64_t experts = 1, local = 1, per_token = 1;
  double max_violation = 0;
};

// The quantile of a rank's rows, over an even share. REQUIRES 0 < quantile < 1.
double routing_load(const RoutingModel& model, double quantile);

// The regularised incomplete beta function: P(X <= x) for X ~ Beta(a, b).
double beta_probability(double a, double b, double x);
// P(X <= x) for X ~ Gamma(shape a, scale 1).
double gamma_probability(double a, double x);

}  // namespace plimsoll
