#include "runtime/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace plimsoll::runtime {
namespace {

TEST(AreFinite, FindsOneAmongMany) {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values(1000, Limits::max());
  values[3] = Limits::denorm_min();
  values[4] = -Limits::max();
  EXPECT_TRUE(are_finite(values));
  EXPECT_TRUE(are_finite({}));
  for (const float wrong :
       {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::signaling_NaN()})
    for (const size_t at : {size_t{0}, size_t{517}, values.size() - 1}) {
      std::vector<float> others = values;
      others[at] = wrong;
      EXPECT_FALSE(are_finite(others)) << wrong << " at " << at;
    }
}

}  // namespace
}  // namespace plimsoll::runtime
