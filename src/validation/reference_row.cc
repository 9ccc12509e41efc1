#include "validation/reference_row.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "strategy/names.h"
#include "validation/csv.h"
#include "validation/ledger.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

Result<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail({.position = {.file = path.string()}, .message = "the file can't be read"});
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::optional<DType> dtype_or_none(const std::string& name) { return dtype_from_name(name); }

std::optional<Precision> precision_of(const std::string& name) {
  if (name == "fp32") return Precision::kFloat32;
  if (name == "bf16") return Precision::kBFloat16;
  if (name == "fp16") return Precision::kFloat16;
  if (name == "amp_bf16") return Precision::kAutocastBFloat16;
  if (name == "amp_fp16") return Precision::kAutocastFloat16;
  return std::nullopt;
}

std::optional<Optimizer> optimizer_of(const std::string& name) {
  using K = OptimizerKind;
  using I = OptimizerImplementation;
  if (name == "adamw_foreach") return Optimizer{K::kAdamW, I::kForeach};
  if (name == "adamw_fused") return Optimizer{K::kAdamW, I::kFused};
  if (name == "adamw_loop") return Optimizer{K::kAdamW, I::kForLoop};
  if (name == "sgd") return Optimizer{K::kSgd, I::kForeach};
  if (name == "sgd_momentum") return Optimizer{K::kSgdMomentum, I::kForeach};
  if (name == "adafactor_hf") return Optimizer{K::kAdafactor, I::kForeach};
  return optimizer_from_name(name);  // as job files have it
}

std::optional<Recompute> recompute_of(const std::string& name) {
  if (name == "none") return Recompute{};
  if (name == "nonreentrant") return Recompute{.kind = RecomputeKind::kFull};
  if (name == "reentrant") return Recompute{.kind = RecomputeKind::kFull, .is_reentrant = true};
  if (name == "sac_mm") return Recompute{.kind = RecomputeKind::kSelective};
  return std::nullopt;
}

template <typename T>
std::optional<T> parsed(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional<T>(value) : std::nullopt;
}
int64_t number(const std::string& text, int64_t fallback) { return parsed<int64_t>(text).value_or(fallback); }

class RowReader {
 public:
  RowReader(const CsvTable& table, size_t row, const std::filesystem::path& folder)
      : table_(table), row_(row), folder_(folder) {}

  ReferenceRow read() {
    out_.id = cell("id");
    out_.family = cell("model_type");
    out_.framework = cell("framework");
    out_.config = folder_ / cell("config_json");
    read_spec();
    read_strategy();
    read_loop();
    read_measured();
    return std::move(out_);
  }

 private:
  const std::string& cell(const std::string& name) const { return table_.at(row_, name); }
  void refuse(std::string why) {
    if (out_.unmapped.empty()) out_.unmapped = std::move(why);
  }

  void read_spec() {
    const auto text = read_text(folder_ / cell("spec"));
    const Json spec = text ? Json::parse(*text, nullptr, false) : Json();
    if (!spec.is_object()) return;
    out_.sums_in_place = spec.value("acc_emulate", true);
    out_.job.loop.input_require_grads = spec.value("input_require_grads", false);
    out_.job.loop.has_evaluation = spec.value("eval", false);
    const bool has_sdpa = cell("attn") != "eager";
    if (has_sdpa && spec.value("sdpa_prefer", "flash") == "cudnn")
      out_.job.attention.sdpa_backend = SdpaBackend::kCudnnFirst;
    if (spec.contains("experts_impl") && spec["experts_impl"].is_string()) {
      const std::string experts = spec["experts_impl"];
      if (experts == "grouped_mm")
        out_.job.experts = ExpertsImplementation::kGroupedMm;
      else if (experts == "batched_mm")
        out_.job.experts = ExpertsImplementation::kBatchedMm;
      else
        refuse(fmt::format("experts_impl {}", experts));
    }
  }

  void read_strategy() {
    Job& job = out_.job;
    job.model.name = out_.config.string();
    job.hardware.gpus = number(cell("world"), 1);
    const std::string& framework = cell("framework");
    job.engine = framework == "ddp"     ? DataParallelEngine::kDdp
                 : framework == "fsdp2" ? DataParallelEngine::kFsdp2
                                        : DataParallelEngine::kNone;
    job.parallel.tensor = number(cell("tp"), 1);
    if (job.engine == DataParallelEngine::kFsdp2) read_fsdp2(job.fsdp2);
    if (job.engine == DataParallelEngine::kDdp) {
      job.ddp.bucket_cap_mb = parsed<double>(cell("bucket_cap_mb")).value_or(job.ddp.bucket_cap_mb);
      job.ddp.gradient_as_bucket_view = cell("bucket_view") == "True";
    }
    if (const auto p = precision_of(cell("dtype")))
      job.precision = *p;
    else
      refuse(fmt::format("dtype {}", cell("dtype")));
    if (const auto o = optimizer_of(cell("optimizer")))
      job.optimizer = *o;
    else
      refuse(fmt::format("optimizer {}", cell("optimizer")));
    if (const auto r = recompute_of(cell("ckpt")))
      job.recompute = *r;
    else
      refuse(fmt::format("ckpt {}", cell("ckpt")));
    job.attention.implementation =
        cell("attn") == "eager" ? AttentionImplementation::kEager : AttentionImplementation::kSdpa;
  }

  void read_fsdp2(Fsdp2Settings& fsdp2) {
    fsdp2.param_dtype = dtype_or_none(cell("mp_param"));
    fsdp2.reduce_dtype = dtype_or_none(cell("mp_reduce"));
    fsdp2.reshard_after_forward = cell("reshard") != "False";
    if (cell("root_reshard") == "True") fsdp2.root_reshard_after_forward = true;
    if (cell("root_reshard") == "False") fsdp2.root_reshard_after_forward = false;
    fsdp2.load = ModelLoad::kDevice;  // the traced jobs build the model on the device
    fsdp2.split_head = cell("fsdp_split_head") == "True";
    fsdp2.replicate = number(cell("replicate"), 1);
  }

  void read_loop() {
    Job& job = out_.job;
    job.batch.micro_batch = number(cell("B"), 1);
    job.batch.sequence = number(cell("S"), 1);
    job.batch.accumulation = number(cell("GA"), 1);
    job.loop.clip_max_norm = parsed<double>(cell("clip"));
    job.loop.zero_grad = cell("zero") == "zeros"   ? ZeroGrad::kZeros
                         : cell("zero") == "never" ? ZeroGrad::kNever
                                                   : ZeroGrad::kSetToNone;
    job.loop.no_sync = cell("no_sync") == "True";
    job.loop.use_cache = cell("use_cache") == "True"     ? UseCache::kTrue
                         : cell("use_cache") == "config" ? UseCache::kConfig
                                                         : UseCache::kFalse;
    job.loop.hold_outputs = cell("hold_outputs") == "True";
    job.loop.has_attention_mask = cell("attention_mask") == "True";
    if (!cell("trainable").empty()) job.loop.trainable = cell("trainable");
    job.loop.has_save = false;
  }

  void read_measured() {
    const Json phases = Json::parse(cell("phase_peaks"), nullptr, false);
    if (phases.is_object())
      for (const auto& [phase, bytes] : phases.items()) out_.phase_peaks[phase] = bytes.get<int64_t>();
    if (!cell("load").empty()) out_.phase_peaks["load"] = number(cell("load"), 0);
    out_.peak = number(cell("peak_allocated"), 0);
    out_.peak_phase = cell("peak_phase");
    for (const char* category :
         {"param", "buffer", "grad", "optim", "input", "activation", "temp_fwd", "temp_bwd", "temp_step",
          "comm_allgather", "comm_copyout", "comm_unsharded_param", "comm_reduce", "comm_accum_grad",
          "comm_bucket", "other"})
      out_.peak_categories[category] = number(cell(fmt::format("pk_{}", category)), 0);
  }

  const CsvTable& table_;
  size_t row_;
  const std::filesystem::path& folder_;
  ReferenceRow out_;
};

}  // namespace

Result<std::vector<ReferenceRow>> read_reference_rows(const std::filesystem::path& file) {
  PLIMSOLL_TRY(text, read_text(file));
  PLIMSOLL_TRY(table, CsvTable::parse(text, file.string()));
  if (table.has_column("settings")) return read_ledger_rows(table, file.string());
  const std::filesystem::path folder = file.parent_path();
  std::vector<ReferenceRow> rows;
  for (size_t i = 0; i < table.rows(); ++i) rows.push_back(RowReader(table, i, folder).read());
  return rows;
}

}  // namespace plimsoll
