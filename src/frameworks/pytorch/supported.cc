#include "frameworks/pytorch/supported.h"

#include <fmt/format.h>

#include "frameworks/pytorch/families.h"
#include "strategy/names.h"

namespace plimsoll::pytorch {
namespace {

Result<void> refuse(std::string field, std::string_view choice, std::string expected) {
  return fail({.position = {.key = field},
               .message = fmt::format("{} = {} has no recipe for framework pytorch yet", field, choice),
               .expected = std::move(expected)});
}

Result<void> check_ddp(const DdpSettings& ddp) {
  if (ddp.static_graph) return refuse("ddp.static_graph", "true", "false");
  if (ddp.find_unused_parameters) return refuse("ddp.find_unused_parameters", "true", "false");
  return {};
}

}  // namespace

Result<void> check_supported(const Architecture& architecture, const ResolvedJob& job) {
  PLIMSOLL_CHECK(find_family(architecture.family));
  if (job.loss.kind != LossKind::kFullLogits) return refuse("loss.path", name_of(job.loss.kind), "full");
  if (job.attention == AttentionImplementation::kFlashAttention2)
    return refuse("attention.implementation", name_of(job.attention),
                  "sdpa (which takes the flash kernel) or eager");
  if (job.engine == DataParallelEngine::kDdp) PLIMSOLL_CHECK(check_ddp(job.ddp));
  if (job.engine == DataParallelEngine::kFsdp2 && job.fsdp2.output_dtype)
    return refuse("fsdp2.output_dtype", name_of(*job.fsdp2.output_dtype), "none");
  return {};
}

}  // namespace plimsoll::pytorch
