#include "validation/torchtitan_rows.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "strategy/job_file.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// An option of the tracer whose word decides one field of the job.
struct Option {
  std::string_view name;
  std::map<std::string, std::string, std::less<>> settings;  // by word
};
const Option kOptions[] = {
    {"tt", {{"010", "torchtitan.release=0.1.0"}, {"022", "torchtitan.release=0.2.2"}}},
    {"flavor",
     {{"8B", "model.name=llama-3.1-8b"},
      {"70B", "model.name=llama-3.1-70b"},
      {"405B", "model.name=llama-3.1-405b"}}},
    {"ac",
     {{"none", "recompute.mode=none"},
      {"full", "recompute.mode=full"},
      {"selective_op", "recompute.mode=selective"}}},
    {"optimizer", {{"fused", "optimizer.name=adamw-fused"}, {"foreach", "optimizer.name=adamw"}}},
    {"reshard",
     {{"default", "torchtitan.reshard_after_forward=default"},
      {"always", "torchtitan.reshard_after_forward=always"},
      {"never", "torchtitan.reshard_after_forward=never"}}},
    {"cudnn", {{"0", "attention.sdpa_backend=flash"}, {"1", "attention.sdpa_backend=cudnn-first"}}},
};
// Numbers that are fields as they are.
constexpr std::pair<std::string_view, std::string_view> kNumbers[] = {
    {"world", "hardware.gpus"},   {"B", "batch.micro_batch"}, {"S", "batch.sequence"},
    {"GA", "batch.accumulation"}, {"layers", "model.layers"}, {"clip", "loop.clip_max_norm"}};

std::string word_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

class RowReader {
 public:
  RowReader(const CsvTable& table, size_t row) : table_(table), row_(row) {}

  ReferenceRow read() {
    out_.id = table_.at(row_, "id");
    out_.framework = "torchtitan";
    out_.job.framework = Framework::kTorchtitan;
    out_.job.loop.has_evaluation = false;
    out_.job.loop.has_save = false;
    read_spec();
    read_peaks();
    return std::move(out_);
  }

 private:
  void refuse(std::string why) {
    if (out_.unmapped.empty()) out_.unmapped = std::move(why);
  }
  void apply(const std::string& setting) {
    if (auto done = apply_setting(out_.job, setting); !done) refuse(done.error().message);
  }

  void read_spec() {
    const Json spec = Json::parse(table_.at(row_, "spec"), nullptr, false);
    if (!spec.is_object()) return refuse("spec is no JSON object");
    for (const Option& option : kOptions) {
      const auto value = spec.find(option.name);
      if (value == spec.end()) continue;
      const auto setting = option.settings.find(word_of(*value));
      if (setting == option.settings.end())
        refuse(fmt::format("{} {}", option.name, word_of(*value)));
      else
        apply(setting->second);
    }
    for (const auto& [name, path] : kNumbers)
      if (const auto value = spec.find(name); value != spec.end() && !value->is_null())
        apply(fmt::format("{}={}", path, value->dump()));
  }

  void read_peaks() {
    const Json peaks = Json::parse(table_.at(row_, "phase_peaks"), nullptr, false);
    if (!peaks.is_object()) return refuse("phase_peaks is no JSON object");
    for (const auto& [phase, bytes] : peaks.items()) {
      if (!bytes.is_number_unsigned())
        return refuse(fmt::format("phase_peaks: {} has no number of bytes", phase));
      if (phase == "load" || phase == "end") continue;
      out_.phase_peaks[phase == "ready" ? "load" : phase] = bytes.get<int64_t>();
    }
    if (out_.phase_peaks.empty()) refuse("no peak of any phase is given");
  }

  const CsvTable& table_;
  size_t row_;
  ReferenceRow out_;
};

}  // namespace

std::vector<ReferenceRow> read_torchtitan_rows(const CsvTable& table) {
  std::vector<ReferenceRow> rows;
  for (size_t i = 0; i < table.rows(); ++i) rows.push_back(RowReader(table, i).read());
  return rows;
}

}  // namespace plimsoll
