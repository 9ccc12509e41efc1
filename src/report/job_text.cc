#include "report/job_text.h"

#include <fmt/format.h>

#include "strategy/names.h"

namespace plimsoll {
namespace {

std::string engine_text(const ResolvedJob& job) {
  switch (job.engine) {
    case DataParallelEngine::kNone:
      return "one rank";
    case DataParallelEngine::kDdp:
      return fmt::format("DDP over {} ranks", job.mesh.data);
    case DataParallelEngine::kFsdp2:
      break;
  }
  std::string text = fmt::format("FSDP2 over {} ranks", job.mesh.shard);
  if (job.mesh.replicate > 1) text += fmt::format(" x {} replicas", job.mesh.replicate);
  if (job.fsdp2.cpu_offload) text += " with CPU offload";
  return text;
}

std::string precision_text(const ResolvedJob& job) {
  std::string text(name_of(job.precision));
  if (job.engine == DataParallelEngine::kFsdp2 && job.fsdp2.param_dtype)
    text = fmt::format("{} shards, {} compute", text, name_of(*job.fsdp2.param_dtype));
  return text;
}

}  // namespace

std::string job_headline(const Estimate& e) {
  std::string parameters = with_thousands(e.parameters) + " parameters";
  if (e.active_parameters != e.parameters)
    parameters += fmt::format(", {} active", with_thousands(e.active_parameters));
  const Batch& batch = e.job.batch;
  std::string text =
      fmt::format("{} ({}) on {} x {}\n", e.model_name, parameters, e.job.mesh.world, e.gpu.title);
  text += fmt::format("{}, {}; {} with {}\n", name_of(e.job.framework), engine_text(e.job),
                      precision_text(e.job), name_of(e.job.optimizer));
  text += fmt::format(
      "sequence {} x micro-batch {} x accumulation {}, global batch {}; attention {}, recompute {}\n",
      batch.sequence, batch.micro_batch, batch.accumulation, batch.global_batch, name_of(e.job.attention),
      name_of(e.job.recompute));
  return text;
}

}  // namespace plimsoll
