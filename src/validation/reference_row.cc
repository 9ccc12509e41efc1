#include "validation/reference_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "base/read_file.h"
#include "strategy/names.h"
#include "validation/csv.h"
#include "validation/ledger.h"
#include "validation/megatron_rows.h"
#include "validation/torchtitan_rows.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxTableBytes = size_t{64} << 20;
constexpr size_t kMaxSpecBytes = size_t{1} << 20;
constexpr const char* kTable = "a table of measured rows (docs/measured_rows.md)";

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

template <typename T>
struct Word {
  std::string_view word;
  T value;
};
constexpr Word<DataParallelEngine> kEngines[] = {{"single", DataParallelEngine::kNone},
                                                 {"ddp", DataParallelEngine::kDdp},
                                                 {"fsdp2", DataParallelEngine::kFsdp2}};
constexpr Word<AttentionImplementation> kAttentions[] = {{"eager", AttentionImplementation::kEager},
                                                         {"sdpa", AttentionImplementation::kSdpa}};
constexpr Word<ZeroGrad> kZeroGrads[] = {
    {"set_none", ZeroGrad::kSetToNone}, {"zeros", ZeroGrad::kZeros}, {"never", ZeroGrad::kNever}};
constexpr Word<UseCache> kUseCaches[] = {
    {"False", UseCache::kFalse}, {"True", UseCache::kTrue}, {"config", UseCache::kConfig}};
constexpr Word<bool> kBooleans[] = {{"True", true}, {"False", false}};

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

  // Empty when the cell is, or says "default"; what can't be read is why the row isn't mapped.
  template <typename Read>
  auto choice(const std::string& column, Read read) {
    using Value = decltype(read(cell(column)));
    const std::string& text = cell(column);
    const bool is_given = !text.empty() && text != "default";
    Value value = is_given ? read(text) : Value();
    if (!value && is_given) refuse(fmt::format("{} {}", column, text));
    return value;
  }
  std::optional<int64_t> integer(const std::string& column) { return choice(column, parsed<int64_t>); }
  std::optional<double> number(const std::string& column) { return choice(column, parsed<double>); }
  template <typename T, size_t N>
  std::optional<T> word(const std::string& column, std::span<const Word<T>, N> words) {
    return choice(column, [&](const std::string& text) -> std::optional<T> {
      for (const Word<T>& w : words)
        if (w.word == text) return w.value;
      return std::nullopt;
    });
  }
  bool flag(const std::string& column) { return word(column, std::span(kBooleans)).value_or(false); }
  std::optional<DType> dtype(const std::string& column) {
    if (cell(column) == "none") return std::nullopt;
    return choice(column, [](const std::string& text) { return dtype_from_name(text); });
  }

  void read_spec() {
    const auto text = read_file(folder_ / cell("spec"), {.most_bytes = kMaxSpecBytes});
    const Json spec = text ? Json::parse(*text, nullptr, false) : Json();
    if (!spec.is_object()) return refuse(fmt::format("spec {} can't be read", cell("spec")));
    out_.sums_in_place = flag_of(spec, "acc_emulate", true);
    out_.job.loop.input_require_grads = flag_of(spec, "input_require_grads", false);
    out_.job.loop.has_evaluation = flag_of(spec, "eval", false);
    const bool has_sdpa = cell("attn") != "eager";
    if (has_sdpa && spec.contains("sdpa_prefer") && spec["sdpa_prefer"] == "cudnn")
      out_.job.attention.sdpa_backend = SdpaBackend::kCudnnFirst;
    if (spec.contains("experts_impl") && spec["experts_impl"].is_string()) {
      const std::string experts = spec["experts_impl"];
      out_.job.experts = from_name<ExpertsImplementation>(experts);
      if (!out_.job.experts) refuse(fmt::format("experts_impl {}", experts));
    }
  }

  bool flag_of(const Json& spec, const char* key, bool otherwise) {
    if (!spec.contains(key)) return otherwise;
    const auto* const flag = spec[key].get_ptr<const bool*>();
    if (!flag) refuse(fmt::format("{} of the spec is neither true nor false", key));
    return flag ? *flag : otherwise;
  }

  void read_strategy() {
    Job& job = out_.job;
    job.model.name = out_.config.string();
    job.hardware.gpus = integer("world").value_or(1);
    job.engine = word("framework", std::span(kEngines));
    job.parallel.tensor = integer("tp").value_or(1);
    if (job.engine == DataParallelEngine::kFsdp2) read_fsdp2(job.fsdp2);
    if (job.engine == DataParallelEngine::kDdp) {
      job.ddp.bucket_cap_mb = number("bucket_cap_mb").value_or(job.ddp.bucket_cap_mb);
      job.ddp.gradient_as_bucket_view = flag("bucket_view");
    }
    job.precision = choice("dtype", from_name<Precision>);
    job.optimizer = choice("optimizer", optimizer_of).value_or(Optimizer{});
    job.recompute = choice("ckpt", recompute_of).value_or(Recompute{});
    job.attention.implementation = word("attn", std::span(kAttentions));
  }

  void read_fsdp2(Fsdp2Settings& fsdp2) {
    fsdp2.param_dtype = dtype("mp_param");
    fsdp2.reduce_dtype = dtype("mp_reduce");
    fsdp2.reshard_after_forward = word("reshard", std::span(kBooleans)).value_or(true);
    fsdp2.root_reshard_after_forward = word("root_reshard", std::span(kBooleans));
    fsdp2.load = ModelLoad::kDevice;  // the traced jobs build the model on the device
    fsdp2.split_head = flag("fsdp_split_head");
    fsdp2.replicate = integer("replicate").value_or(1);
  }

  void read_loop() {
    Job& job = out_.job;
    job.batch.micro_batch = integer("B");
    job.batch.sequence = integer("S");
    job.batch.accumulation = integer("GA");
    job.loop.clip_max_norm = number("clip");
    job.loop.zero_grad = word("zero", std::span(kZeroGrads)).value_or(ZeroGrad::kSetToNone);
    job.loop.no_sync = flag("no_sync");
    job.loop.use_cache = word("use_cache", std::span(kUseCaches)).value_or(UseCache::kFalse);
    job.loop.hold_outputs = flag("hold_outputs");
    job.loop.has_attention_mask = flag("attention_mask");
    if (!cell("trainable").empty()) job.loop.trainable = cell("trainable");
    job.loop.has_save = false;
  }

  void read_measured() {
    const Json phases = Json::parse(cell("phase_peaks"), nullptr, false);
    if (phases.is_object())
      for (const auto& [phase, bytes] : phases.items()) add_phase_peak(phase, bytes);
    else if (!cell("phase_peaks").empty())
      refuse("phase_peaks is no JSON object");
    if (const auto load = integer("load")) out_.phase_peaks["load"] = *load;
    if (out_.phase_peaks.empty()) refuse("no peak of any phase is given");
    out_.peak_phase = cell("peak_phase");
    for (const char* category :
         {"param", "buffer", "grad", "optim", "input", "activation", "temp_fwd", "temp_bwd", "temp_step",
          "comm_allgather", "comm_copyout", "comm_unsharded_param", "comm_reduce", "comm_accum_grad",
          "comm_bucket", "other"})
      out_.peak_categories[category] = integer(fmt::format("pk_{}", category)).value_or(0);
  }

  void add_phase_peak(const std::string& phase, const Json& bytes) {
    const bool is_quantity =
        bytes.is_number_unsigned() && bytes.get<uint64_t>() < static_cast<uint64_t>(kMaxQuantity);
    if (!is_quantity) return refuse(fmt::format("phase_peaks: {} has no number of bytes", phase));
    out_.phase_peaks[phase] = bytes.get<int64_t>();
  }

  const CsvTable& table_;
  size_t row_;
  const std::filesystem::path& folder_;
  ReferenceRow out_;
};

}  // namespace

constexpr std::string_view kQuantityNames[] = {"live", "allocated", "active", "reserved", "device"};

std::string_view name_of(MeasuredQuantity quantity) { return kQuantityNames[static_cast<size_t>(quantity)]; }

std::optional<MeasuredQuantity> quantity_from_name(std::string_view name) {
  const auto* const found = std::ranges::find(kQuantityNames, name);
  if (found == std::end(kQuantityNames)) return std::nullopt;
  return static_cast<MeasuredQuantity>(found - std::begin(kQuantityNames));
}

std::vector<std::string_view> quantity_names() {
  return {std::begin(kQuantityNames), std::end(kQuantityNames)};
}

Result<std::vector<ReferenceRow>> read_reference_rows(const std::filesystem::path& file) {
  PLIMSOLL_TRY(text, read_file(file, {.most_bytes = kMaxTableBytes, .expected = kTable}));
  PLIMSOLL_TRY(table, CsvTable::parse(text, file.string()));
  if (table.rows() == 0)
    return fail({.position = {.file = file.string()}, .message = "has no rows", .expected = kTable});
  if (table.has_column("oracle_end_512")) return read_megatron_rows(table, file);
  if (table.has_column("reserved_sim_peak")) return read_torchtitan_rows(table);
  const bool is_reference = table.has_column("phase_peaks") || table.has_column("config_json");
  if (!is_reference) return read_ledger_rows(table, file.string());
  for (const char* column :
       {"id", "config_json", "spec", "framework", "dtype", "optimizer", "ckpt", "B", "S", "phase_peaks"})
    if (!table.has_column(column))
      return fail({.position = {.file = file.string(), .line = 1},
                   .message = fmt::format("column \"{}\" is missing", column),
                   .expected = kTable});
  const std::filesystem::path folder = file.parent_path();
  std::vector<ReferenceRow> rows;
  for (size_t i = 0; i < table.rows(); ++i) rows.push_back(RowReader(table, i, folder).read());
  return rows;
}

}  // namespace plimsoll
