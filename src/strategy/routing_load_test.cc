#include "strategy/routing_load.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll {
namespace {

TEST(RoutingLoad, ProbabilitiesAreThoseOfClosedForms) {
  EXPECT_NEAR(beta_probability(1, 1, 0.3), 0.3, 1e-12);                     // uniform
  EXPECT_NEAR(beta_probability(2, 1, 0.3), 0.09, 1e-12);                    // x^2
  EXPECT_NEAR(beta_probability(3, 2, 0.6), 4 * 0.216 - 3 * 0.1296, 1e-12);  // 4 x^3 - 3 x^4
  EXPECT_NEAR(gamma_probability(1, 2), 1 - std::exp(-2), 1e-12);            // exponential
  EXPECT_NEAR(gamma_probability(3, 2.5), 1 - std::exp(-2.5) * (1 + 2.5 + 3.125), 1e-12);
}

// Two experts on two ranks: with shape 1 the share is uniform; the fullest of two exponentials is 3/2 of the
// mean.
TEST(RoutingLoad, IsTheQuantileOfARanksShare) {
  const RoutingModel model{.experts = 2, .local = 1, .per_token = 1, .max_violation = 0.5};
  EXPECT_NEAR(routing_load(model, 0.5), 1, 1e-3);
  EXPECT_NEAR(routing_load(model, 0.9), 2 * 0.9, 2e-3);
}

TEST(RoutingLoad, RanksWithMoreExpertsAreMoreEven) {
  RoutingModel model{.experts = 64, .local = 1, .per_token = 6, .max_violation = 0.7};
  double before = 1e9;
  for (const int64_t local : {1, 2, 8, 32}) {
    model.local = local;
    const double load = routing_load(model, 0.99);
    EXPECT_GT(load, 1);
    EXPECT_LT(load, before);
    before = load;
  }
  model.local = 64;
  EXPECT_EQ(routing_load(model, 0.99), 1);
  model.local = 1;
  model.max_violation = 0;
  EXPECT_EQ(routing_load(model, 0.99), 1);
}

// A token takes each local expert at most once: of 8 experts with 2 a token one rank of one gets no more than
// half of all rows.
TEST(RoutingLoad, IsBoundedByAllTokens) {
  const RoutingModel model{.experts = 8, .local = 1, .per_token = 2, .max_violation = 6};
  EXPECT_LE(routing_load(model, 0.999999), 8 * 0.5);
}

}  // namespace
}  // namespace plimsoll
