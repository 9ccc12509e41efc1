#include "importers/torchtitan/torchtitan_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/units.h"
#include "importers/torchtitan/keys.h"
#include "strategy/job_file.h"

namespace plimsoll {
namespace {

using namespace torchtitan_keys;

std::string text_of(const TomlValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.content)) return *text;
  if (const auto* flag = std::get_if<bool>(&value.content)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&value.content)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value.content)) return fmt::format("{}", *number);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value.content))
    return fmt::format("{}", fmt::join(*list, ","));
  return "";
}

class Importer {
 public:
  explicit Importer(const TomlDocument& document) : d_(document) {}

  Result<TorchtitanJob> import() {
    out_.job.framework = Framework::kTorchtitan;
    is_of_010_ = has("training.batch_size") || has("training.compile") || has("checkpoint.enable_checkpoint");
    PLIMSOLL_CHECK(set(is_of_010_ ? "torchtitan.release=0.1.0" : "torchtitan.release=0.2.2", "training"));
    PLIMSOLL_CHECK(take_defaults());
    for (const auto& [key, value] : d_.values) PLIMSOLL_CHECK(take(key, value));
    PLIMSOLL_CHECK(take_model());
    PLIMSOLL_CHECK(take_data_parallelism());
    PLIMSOLL_CHECK(take_recompute());
    PLIMSOLL_CHECK(take_compile());
    PLIMSOLL_CHECK(take_float8());
    write_notes();
    return std::move(out_);
  }

 private:
  bool has(std::string_view key) const { return d_.values.contains(key); }
  std::optional<std::string> text(std::string_view key) const {
    const auto found = d_.values.find(key);
    if (found == d_.values.end()) return std::nullopt;
    return text_of(found->second);
  }
  tl::unexpected<Error> refuse(std::string_view key, std::string message, std::string expected) const {
    return fail(
        {.position = d_.position_of(key), .message = std::move(message), .expected = std::move(expected)});
  }
  Result<void> set(const std::string& setting, std::string_view key) {
    if (auto done = apply_setting(out_.job, setting); !done) {
      Error error = std::move(done).error();
      error.position = d_.position_of(key);
      return fail(std::move(error));
    }
    return {};
  }

  // What a configuration leaves open, where torchtitan's default is another than ours.
  Result<void> take_defaults() {
    constexpr std::pair<std::string_view, std::string_view> kDefaults[] = {
        {"training.seq_len", "batch.sequence=2048"},
        {"training.local_batch_size", "batch.micro_batch=8"},
        {"validation.enable", "loop.evaluation=false"},
        {"checkpoint.enable", "loop.save=false"}};
    for (const auto& [key, setting] : kDefaults) {
      PLIMSOLL_CHECK(set(std::string(setting), key));
      const bool is_given = has(key) || (key == "training.local_batch_size" && has("training.batch_size"));
      if (!is_given && key.starts_with("training.")) defaults_.emplace_back(setting);
    }
    if (has("training.batch_size") && has("training.local_batch_size"))
      return refuse("training.batch_size", "training.local_batch_size says the same", "one of the two");
    return {};
  }

  Result<void> take(const std::string& key, const TomlValue& value) {
    if (std::holds_alternative<EmptyTable>(value.content)) return {};
    const KeyRow* row = find_key(key);
    if (!row) {
      unknown_.push_back(key);
      return {};
    }
    if (row->kind == KeyKind::kHarmless) {
      ++harmless_;
      return {};
    }
    deciding_.push_back(key);
    if (row->kind == KeyKind::kField) return take_field(key, *row, text_of(value));
    if (row->kind == KeyKind::kOnly) return check_only(key, *row, text_of(value));
    return {};
  }

  Result<void> take_field(const std::string& key, const KeyRow& row, const std::string& word) {
    if (word == row.unset && !row.unset.empty()) return {};
    if (row.words.empty()) return set(fmt::format("{}={}", row.field, word), key);
    const auto found = std::ranges::find(row.words, word, [](const auto& pair) { return pair.first; });
    if (found == row.words.end()) return check_only(key, row, word);
    return set(fmt::format("{}={}", row.field, found->second), key);
  }

  Result<void> check_only(const std::string& key, const KeyRow& row, const std::string& word) {
    std::vector<std::string> allowed;
    for (const auto& [known, meaning] : row.words) {
      if (known == word) return {};
      allowed.emplace_back(known.empty() ? "nothing" : known);
    }
    return refuse(key, fmt::format("{} = {} is not supported yet", key, word),
                  fmt::format("{}", fmt::join(allowed, " or ")));
  }

  Result<void> take_model() {
    const std::optional<std::string> name = text("model.name"), flavor = text("model.flavor");
    if (!name || !flavor)
      return refuse(name ? "model.name" : "", "names no model", "model.name and model.flavor");
    std::vector<std::string> known;
    for (const FlavorRow& row : flavor_rows()) {
      known.push_back(fmt::format("{} {}", row.name, row.flavor));
      if (row.name != *name || row.flavor != *flavor) continue;
      for (std::string_view setting : row.settings) PLIMSOLL_CHECK(set(std::string(setting), "model.flavor"));
      return {};
    }
    return refuse("model.flavor", fmt::format("the model {} {} is not known here", *name, *flavor),
                  fmt::format("one of {}", fmt::join(known, ", ")));
  }

  // -1 shards over what the other degrees leave.
  Result<void> take_data_parallelism() {
    int64_t replicate = 1, shard = -1;
    for (const char* table : {"parallelism", "training"}) {
      PLIMSOLL_CHECK(read_degree(fmt::format("{}.data_parallel_replicate_degree", table), 1, replicate));
      PLIMSOLL_CHECK(read_degree(fmt::format("{}.data_parallel_shard_degree", table), -1, shard));
    }
    Job& job = out_.job;
    job.fsdp2.replicate = replicate;
    if (shard < 1) return {};
    job.parallel.data = saturating_multiply(replicate, shard);
    const int64_t model = saturating_multiply(saturating_multiply(job.parallel.tensor, job.parallel.pipeline),
                                              job.parallel.context);
    job.hardware.gpus = saturating_multiply(*job.parallel.data, model);
    return {};
  }
  Result<void> read_degree(const std::string& key, int64_t least, int64_t& degree) {
    const auto found = d_.values.find(key);
    if (found == d_.values.end()) return {};
    const auto* number = std::get_if<int64_t>(&found->second.content);
    constexpr int64_t kMost = int64_t{1} << 20;
    if (!number || *number < least || *number == 0 || *number > kMost)
      return refuse(key, fmt::format("{} is no degree", text_of(found->second)), "a number of ranks");
    degree = *number;
    return {};
  }

  Result<void> take_recompute() {
    const std::string mode = text("activation_checkpoint.mode").value_or("selective");
    const std::string option = text("activation_checkpoint.selective_ac_option").value_or("2");
    if (!has("activation_checkpoint.mode")) defaults_.emplace_back("recompute.mode selective");
    constexpr std::string_view kKey = "activation_checkpoint.mode";
    if (mode == "none" || mode == "full") {
      if (has("activation_checkpoint.selective_ac_option"))
        out_.notes.push_back(
            fmt::format("activation_checkpoint.selective_ac_option has no effect with mode {}", mode));
      return set(fmt::format("recompute.mode={}", mode), kKey);
    }
    if (mode != "selective")
      return refuse(kKey, fmt::format("mode {} is not supported yet", mode), "none, selective or full");
    if (option == "op") return set("recompute.mode=selective", kKey);
    if (option == "0" || option == "1") return set("recompute.mode=full", kKey);
    return set(fmt::format("recompute.mode=every-{}", option), "activation_checkpoint.selective_ac_option");
  }

  Result<void> take_compile() {
    const bool is_on = text("compile.enable") == "true" || text("training.compile") == "true";
    if (!is_on) return {};
    const std::string components = fmt::format(",{},", text("compile.components").value_or("model,loss"));
    out_.job.torchtitan.compiles_blocks = components.find(",model,") != std::string::npos;
    out_.job.torchtitan.compiles_loss = components.find(",loss,") != std::string::npos;
    return {};
  }

  // A key of the table that the generation has.
  std::string float8_text(std::string_view key, std::string otherwise) const {
    const auto later = text(fmt::format("quantize.linear.float8.{}", key));
    return later ? *later : text(fmt::format("float8.{}", key)).value_or(std::move(otherwise));
  }

  Result<void> take_float8() {
    const std::string converters = text("model.converters").value_or("");
    if (converters.empty()) return {};
    if (converters != "float8" && converters != "quantize.linear.float8")
      return refuse("model.converters", fmt::format("the converters {} are not supported yet", converters),
                    "none, or float8");
    const std::string recipe = float8_text("recipe_name", "tensorwise");
    TorchtitanSettings& settings = out_.job.torchtitan;
    settings.float8 = recipe.starts_with("rowwise") ? Float8Recipe::kRowwise : Float8Recipe::kTensorwise;
    settings.gathers_float8 = settings.float8 == Float8Recipe::kTensorwise &&
                              float8_text("enable_fsdp_float8_all_gather", "false") == "true";
    if (float8_text("filter_fqns", "output").find("output") == std::string::npos)
      return refuse("model.converters", "a head in float8 is not supported yet",
                    "filter_fqns with \"output\"");
    return {};
  }

  void write_notes() {
    out_.notes.push_back(fmt::format("{}: {} keys decide bytes ({}), {} decide none", d_.file,
                                     deciding_.size(), fmt::join(deciding_, ", "), harmless_));
    if (!unknown_.empty())
      out_.notes.push_back(fmt::format("{}: {} unknown keys are not applied: {}", d_.file, unknown_.size(),
                                       fmt::join(unknown_, ", ")));
    if (!defaults_.empty())
      out_.notes.push_back(
          fmt::format("{}: left to torchtitan's defaults: {}", d_.file, fmt::join(defaults_, ", ")));
    out_.notes.push_back(
        fmt::format("{}: its keys are those of torchtitan {}: torchtitan.release is set to that", d_.file,
                    is_of_010_ ? "0.1.0" : "0.2.2"));
  }

  const TomlDocument& d_;
  TorchtitanJob out_;
  bool is_of_010_ = false;
  std::vector<std::string> deciding_, unknown_, defaults_;
  int64_t harmless_ = 0;
};

}  // namespace

Result<TorchtitanJob> torchtitan_job(const TomlDocument& document) { return Importer(document).import(); }

Result<TorchtitanJob> read_torchtitan_config(const std::filesystem::path& file) {
  PLIMSOLL_TRY(document, read_toml(file));
  return torchtitan_job(document);
}

}  // namespace plimsoll
