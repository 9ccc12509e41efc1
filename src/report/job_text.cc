#include "report/job_text.h"

#include <fmt/format.h>

#include "strategy/names.h"

namespace plimsoll {
namespace {

constexpr size_t kWidth = 118;

std::string data_parallel_text(const ResolvedJob& job) {
  if (job.engine == DataParallelEngine::kNone) return "";
  if (job.engine == DataParallelEngine::kDdp) return fmt::format("DDP over {} ranks", job.mesh.data);
  if (job.engine == DataParallelEngine::kZero)
    return fmt::format("ZeRO-{} over {} ranks", job.zero.stage, job.mesh.data);
  std::string text = fmt::format("FSDP2 over {} ranks", job.mesh.shard);
  if (job.mesh.replicate > 1) text += fmt::format(" x {} replicas", job.mesh.replicate);
  if (job.fsdp2.cpu_offload) text += " with CPU offload";
  return text;
}

// "TP 2 x PP 4 x DP 8 with the distributed optimizer"
std::string megatron_text(const ResolvedJob& job) {
  std::string text = fmt::format("TP {} x PP {} x DP {}", job.mesh.tensor, job.mesh.pipeline, job.mesh.data);
  if (job.mesh.expert > 1) text += fmt::format(", experts over {} ranks", job.mesh.expert);
  if (job.megatron->has_distributed_optimizer) text += " with the distributed optimizer";
  const bool is_te = job.megatron->layers == MegatronLayers::kTransformerEngine;
  return text + (is_te ? ", Transformer Engine's layers" : ", local layers");
}

std::string engine_text(const ResolvedJob& job) {
  if (job.megatron) return megatron_text(job);
  const std::string data = data_parallel_text(job);
  if (job.mesh.tensor == 1) return data.empty() ? "one rank" : data;
  const std::string tensor = fmt::format("tensor parallelism over {} ranks", job.mesh.tensor);
  return data.empty() ? tensor : fmt::format("{} x {}", data, tensor);
}

// "; offloaded: activations to host, optimizer to disk"
std::string offload_text(const OffloadSettings& offload) {
  std::string text;
  const auto add = [&](std::string_view what, OffloadTarget target) {
    if (target != OffloadTarget::kNone)
      text += fmt::format("{}{} to {}", text.empty() ? "; offloaded: " : ", ", what, name_of(target));
  };
  add("activations", offload.activations);
  add("optimizer", offload.optimizer);
  add("parameters", offload.parameters);
  return text;
}

std::string precision_text(const ResolvedJob& job) {
  if (job.megatron)
    return job.megatron->precision == MegatronPrecision::kFloat16 ? "fp16-mixed" : "bf16-mixed";
  std::string text(name_of(job.precision));
  if (job.engine == DataParallelEngine::kFsdp2 && job.fsdp2.param_dtype)
    text = fmt::format("{} shards, {} compute", text, name_of(*job.fsdp2.param_dtype));
  return text;
}

std::string gpu_text(const Estimate& e) {
  const Bytes peak = e.device_peak(), usable = e.device_limit();
  if (e.verdict.gpu != Fit::kOutOfMemory)
    return fmt::format("peak {} of {} on each GPU, {} to spare", to_gib_text(peak), to_gib_text(usable),
                       to_gib_text(usable - peak));
  return fmt::format("needs {}, {} {}{}", to_gib_text(peak),
                     usable < e.gpu.usable_memory ? "the process may take" : "each GPU has",
                     to_gib_text(usable),
                     peak > usable ? fmt::format(", {} too much", to_gib_text(peak - usable)) : "");
}

std::string host_text(const Estimate& e) {
  const int64_t ranks = e.job.mesh.gpus_per_node;
  const std::string taken = to_gib_text(e.host_peak);
  return fmt::format(
      "{} of the node's {}",
      ranks == 1 ? "takes " + taken : fmt::format("{} ranks take {} x {}", ranks, ranks, taken),
      to_gib_text(e.node.host_memory));
}

}  // namespace

std::string verdict_line(const Estimate& e) {
  const Verdict& v = e.verdict;
  const Fit worst = v.worst();
  if (worst == Fit::kFits) return fmt::format("FITS: {}\n", gpu_text(e));
  std::string text = worst == Fit::kOutOfMemory ? "OUT OF MEMORY" : "AT RISK";
  if (v.gpu == v.host) return fmt::format("{} on GPU and host: {}\n  {}\n", text, gpu_text(e), host_text(e));
  if (v.gpu == worst) return fmt::format("{} on the GPU: {}\n", text, gpu_text(e));
  return fmt::format("{} on the host: {}\n  {}\n", text, host_text(e), gpu_text(e));
}

std::string job_headline(const Estimate& e) {
  std::string parameters = with_thousands(e.parameters) + " parameters";
  if (e.active_parameters != e.parameters)
    parameters += fmt::format(", {} active", with_thousands(e.active_parameters));
  const Batch& batch = e.job.batch;
  std::string text =
      fmt::format("{} ({}) on {} x {}\n", e.model_name, parameters, e.job.mesh.world, e.gpu.title);
  text += fmt::format("{}, {}; {} with {}{}\n", name_of(e.job.framework), engine_text(e.job),
                      precision_text(e.job), name_of(e.job.optimizer), offload_text(e.job.offload));
  if (e.job.megatron)
    return text + fmt::format("sequence {} x micro-batch {} x {} micro-batches, global batch {}\n",
                              batch.sequence, batch.micro_batch, batch.accumulation, batch.global_batch);
  text += fmt::format(
      "sequence {} x micro-batch {} x accumulation {}, global batch {}; attention {}, recompute {}\n",
      batch.sequence, batch.micro_batch, batch.accumulation, batch.global_batch, name_of(e.job.attention),
      name_of(e.job.recompute));
  return text;
}

std::string wrapped(std::string_view line) {
  std::string text, piece = "  ";
  while (!line.empty()) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, space);
    if (piece.size() + 1 + word.size() > kWidth && piece.find_first_not_of(' ') != std::string::npos) {
      text += piece + "\n";
      piece = "    ";
    }
    if (piece.back() != ' ') piece += ' ';
    piece += word;
    line.remove_prefix(std::min(space + 1, line.size()));
  }
  return text + piece + "\n";
}

}  // namespace plimsoll
