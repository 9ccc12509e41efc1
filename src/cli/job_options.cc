#include "cli/job_options.h"

#include <fmt/format.h>

#include "base/data_dir.h"
#include "cli/imported_job.h"
#include "hardware/catalog.h"
#include "importers/hf_config/presets.h"
#include "importers/megatron/megatron_job.h"
#include "strategy/job_file.h"

namespace plimsoll {
namespace {

struct FieldFlag {
  const char* flag;
  const char* value;
  const char* path;
  const char* help;
};
constexpr FieldFlag kFieldFlags[] = {
    {"--gpu", "NAME", "hardware.gpu", "the GPU, by its name in the catalog (`plimsoll gpus`) or a file"},
    {"--gpus", "N", "hardware.gpus", "GPUs of the whole job"},
    {"--seq", "N", "batch.sequence", "sequence length in tokens"},
    {"--micro-batch", "N", "batch.micro_batch", "sequences per rank and forward"},
    {"--accumulation", "N", "batch.accumulation", "micro-batches per optimizer step"},
    {"--global-batch", "N", "batch.global_batch", "sequences per optimizer step, all ranks together"},
    {"--engine", "NAME", "parallel.engine",
     "data parallelism: none, ddp, fsdp2; of framework native none, zero"},
    {"--precision", "NAME", "precision", "fp32, bf16, fp16, amp-bf16, amp-fp16"},
    {"--optimizer", "NAME", "optimizer.name", "adamw, adamw-fused, sgd, ..."},
    {"--recompute", "NAME", "recompute.mode", "none, full, every-N, selective, ..."},
    {"--attention", "NAME", "attention.implementation", "eager, sdpa, flash_attention_2"},
    {"--loss", "NAME", "loss.path", "full, chunked, fused-linear"},
    {"--layers", "N", "model.layers", "use only so many layers of the configuration"},
    {"--framework", "NAME", "framework", "whose code runs the step"},
};

Result<ImportedJob> read_job(const JobOptions& options) {
  ImportedJob imported;
  Job& job = imported.job;
  if (options.from && options.job_file)
    return fail({.position = {.file = "--from"},
                 .message = "names a job, and so does --job",
                 .expected = "one of the two"});
  if (options.from && is_torchtitan_file(*options.from)) {
    PLIMSOLL_TRY(read, read_torchtitan_job(*options.from));
    imported = std::move(read);
  }
  if (options.job_file) {
    PLIMSOLL_TRY(read, read_job_file(*options.job_file));
    job = std::move(read);
  }
  if (options.model) PLIMSOLL_CHECK(apply_setting(job, "model.name", *options.model, "MODEL"));
  for (const FieldFlag& f : kFieldFlags)
    if (const auto found = options.fields.find(f.path); found != options.fields.end() && found->second)
      PLIMSOLL_CHECK(apply_setting(job, f.path, *found->second, f.flag));
  for (const std::string& setting : options.settings) PLIMSOLL_CHECK(apply_setting(job, setting));
  return imported;
}

Result<void> check_given(const Job& job) {
  if (job.model.name.empty())
    return fail({.message = "no model is given",
                 .expected = "a preset, a config.json or its folder",
                 .hint = "`plimsoll models` lists the presets"});
  if (job.hardware.gpu.empty())
    return fail({.message = "no GPU is given",
                 .expected = "--gpu NAME, or hardware.gpu in the job file",
                 .hint = "`plimsoll gpus` lists the catalog"});
  return {};
}

}  // namespace

std::vector<Argument> JobOptions::arguments() {
  std::vector<Argument> arguments{{.name = "MODEL",
                                   .help = "a preset (`plimsoll models`), a config.json or its folder",
                                   .target = &model}};
  for (const FieldFlag& f : kFieldFlags)
    arguments.push_back({.name = f.flag, .value = f.value, .help = f.help, .target = &fields[f.path]});
  arguments.push_back(
      {.name = "--cluster",
       .value = "NAME",
       .help = "the machine around the GPUs, by name or a file; otherwise the GPU's usual one",
       .target = &cluster});
  arguments.push_back(
      {.name = "--job", .value = "FILE", .help = "job file (docs/job_file.md)", .target = &job_file});
  arguments.push_back({.name = "--from",
                       .value = "FILE",
                       .help =
                           "the job and its model from a torchtitan configuration (TOML) or Megatron-LM's "
                           "arguments, a line each or as YAML",
                       .target = &from});
  arguments.push_back({.name = "--set",
                       .value = "FIELD=VALUE",
                       .help = "any field of the job file (`plimsoll help job`); may be given more than once",
                       .target = &settings});
  return arguments;
}

std::vector<std::string> JobOptions::inputs() const {
  const auto gpu = fields.find("hardware.gpu");
  std::vector<std::string> inputs;
  for (const std::optional<std::string>& input :
       {model, job_file, cluster, from, gpu == fields.end() ? std::nullopt : gpu->second})
    if (input) inputs.push_back(*input);
  if (model) inputs.push_back(*model + "/config.json");
  return inputs;
}

namespace {

// What an argument list doesn't say comes from flags: the GPU, and how many there are.
Result<LoadedJob> load_megatron_job(const JobOptions& options) {
  PLIMSOLL_TRY(read, read_job(options));
  const Job& said = read.job;
  if (options.model || options.job_file)
    return fail({.position = {.file = "--from"},
                 .message = "names a job and its model, and so does another argument",
                 .expected = "--from FILE without MODEL and --job"});
  if (said.hardware.gpu.empty())
    return fail({.message = "no GPU is given",
                 .expected = "--gpu NAME",
                 .hint = "`plimsoll gpus` lists the catalog"});
  for (const auto& [path, value] : options.fields)
    if (value && !path.starts_with("hardware."))
      return fail({.message = fmt::format("{} doesn't apply to a job of --from", path),
                   .expected = "a change in the argument list"});
  for (const std::string& setting : options.settings)
    if (!setting.starts_with("hardware.") && !setting.starts_with("allocator.") &&
        !setting.starts_with("routing."))
      return fail({.position = {.file = "--set"},
                   .message = fmt::format("{} doesn't apply to a job of --from", setting),
                   .expected = "hardware.*, allocator.* or routing.*, or a change in the argument list"});
  PLIMSOLL_TRY(arguments, read_megatron_arguments(*options.from));
  const bool says_gpus = said.hardware.gpus != HardwareChoice().gpus ||
                         said.given.contains("hardware.gpus") ||
                         (options.fields.contains("hardware.gpus") && options.fields.at("hardware.gpus"));
  PLIMSOLL_TRY(gpu, find_gpu(said.hardware.gpu));
  PLIMSOLL_TRY(cluster, options.cluster ? find_cluster(*options.cluster) : default_cluster_for(gpu));
  PLIMSOLL_TRY(imported,
               megatron_job(arguments, {.gpus = says_gpus ? said.hardware.gpus : cluster.node.gpus}));
  imported.job.hardware.gpu = said.hardware.gpu;
  imported.job.hardware.gpus_per_node = said.hardware.gpus_per_node;
  imported.job.allocator = said.allocator;
  imported.job.routing = said.routing;
  return LoadedJob{.job = std::move(imported.job),
                   .architecture = std::move(imported.architecture),
                   .gpu = std::move(gpu),
                   .cluster = std::move(cluster)};
}

}  // namespace

Result<LoadedJob> load_job(const JobOptions& options) {
  if (options.from && !is_torchtitan_file(*options.from)) return load_megatron_job(options);
  PLIMSOLL_TRY(read, read_job(options));
  Job& job = read.job;
  PLIMSOLL_CHECK(check_given(job));
  PLIMSOLL_TRY(architecture, read_model(job.model.name, data_dir(),
                                        {.layers = job.model.layers, .overrides = job.model.overrides}));
  architecture.notes.insert(architecture.notes.end(), read.notes.begin(), read.notes.end());
  PLIMSOLL_TRY(gpu, find_gpu(job.hardware.gpu));
  PLIMSOLL_TRY(cluster, options.cluster ? find_cluster(*options.cluster) : default_cluster_for(gpu));
  return LoadedJob{.job = std::move(job),
                   .architecture = std::move(architecture),
                   .gpu = std::move(gpu),
                   .cluster = std::move(cluster)};
}

}  // namespace plimsoll
