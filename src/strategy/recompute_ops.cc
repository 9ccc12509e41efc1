#include "strategy/recompute_ops.h"

#include <algorithm>

namespace plimsoll {

const std::vector<std::string>& recompute_ops() {
  static const std::vector<std::string> ops = {"mm",
                                               "addmm",
                                               "bmm",
                                               "baddbmm",
                                               "_grouped_mm",
                                               "sdpa",
                                               "_softmax",
                                               "native_layer_norm",
                                               "native_dropout",
                                               "add",
                                               "mul",
                                               "silu",
                                               "gelu",
                                               "tanh",
                                               "relu",
                                               "pow",
                                               "mean",
                                               "rsqrt",
                                               "cat",
                                               "clone",
                                               "_to_copy"};
  return ops;
}

bool is_recompute_op(std::string_view name) {
  return std::ranges::find(recompute_ops(), name) != recompute_ops().end();
}

}  // namespace plimsoll
