#include "strategy/job.h"

#include <fmt/format.h>

namespace plimsoll {

std::string Assumption::to_text() const { return fmt::format("{} = {} ({})", field, value, reason); }

DType ResolvedJob::matmul_dtype() const {
  if (const auto dtype = autocast_dtype(precision)) return *dtype;
  if (engine == DataParallelEngine::kFsdp2 && fsdp2.param_dtype) return *fsdp2.param_dtype;
  return parameter_dtype(precision);
}

}  // namespace plimsoll
