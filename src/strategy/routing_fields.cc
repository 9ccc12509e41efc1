#include "strategy/routing_fields.h"

#include "strategy/field_builders.h"

namespace plimsoll {

using namespace field_builders;

std::vector<Field> routing_fields() {
  constexpr double kMostViolation = 1000;
  const auto routing = [](auto member) { return at(&Job::routing, member); };
  return {
      number(
          {.path = "routing.quantile",
           .help = "every layer's experts get the rows of this quantile of a rank's load, not an even share",
           .default_text = "none: tokens spread evenly",
           .reason = "how uneven they are isn't known"},
          {.lowest = 0, .highest = 0.999999, .is_lowest_excluded = true}, routing(&RoutingChoice::quantile)),
      number({.path = "routing.max_violation",
              .help = "how uneven: the fullest expert's tokens over the mean's, less one (MaxVio), as a run "
                      "logs it",
              .default_text = "none",
              .reason = "with routing.quantile it has to be said"},
             {.lowest = 0, .highest = kMostViolation}, routing(&RoutingChoice::max_violation)),
  };
}

}  // namespace plimsoll
