#include "validation/megatron_rows.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "importers/megatron/megatron_job.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Of the machines on which the traced jobs were measured: 80, where a variant doesn't say "sm":90.
constexpr const char* kAmpereGpu = "a100-80gb";
constexpr const char* kHopperGpu = "h100-80gb";

std::optional<int64_t> number_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer()) return std::nullopt;
  const auto value = found->get<int64_t>();
  constexpr int64_t kMost = int64_t{1} << 30;
  return value >= 1 && value <= kMost ? std::optional(value) : std::nullopt;
}

// Ranks of the whole job; empty: the degrees aren't there.
std::optional<int64_t> ranks_of(const Json& degrees) {
  int64_t product = 1;
  constexpr int64_t kMost = int64_t{1} << 20;
  for (const char* axis : {"tp", "pp", "cp", "dp"}) {
    const auto degree = number_of(degrees, axis);
    if (!degree || *degree > kMost || product > kMost) return std::nullopt;
    product *= *degree;
  }
  return product;
}

Result<void> import_job(const std::filesystem::path& arguments_file, const Json& degrees, ReferenceRow& row) {
  const auto ranks = ranks_of(degrees);
  if (!ranks) return fail({.message = "args doesn't name tp, pp, cp and dp"});
  PLIMSOLL_TRY(arguments, read_megatron_arguments(arguments_file));
  PLIMSOLL_TRY(imported, megatron_job(arguments, {.gpus = *ranks}));
  row.job = std::move(imported.job);
  row.architecture = std::move(imported.architecture);
  if (const auto batch = number_of(degrees, "gb")) row.job.batch.global_batch = *batch;
  row.rank = row.job.parallel.pipeline - 1;
  return {};
}

std::optional<int64_t> bytes_of_cell(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<ReferenceRow> read_megatron_rows(const CsvTable& table, const std::filesystem::path& file) {
  std::vector<ReferenceRow> rows;
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string& name = table.at(i, "case");
    const std::string& variant = table.at(i, "variant");
    ReferenceRow row;
    row.id = name + (variant.empty() ? "" : " " + variant) + " " + table.at(i, "golden_machine");
    row.family = "megatron_gpt";
    row.framework = "megatron";
    const auto end = bytes_of_cell(table.at(i, "oracle_end_512")),
               most = bytes_of_cell(table.at(i, "oracle_max_512"));
    if (end) row.phase_peaks["stat2"] = *end;
    if (most) row.phase_peaks["peak"] = *most;
    if (!end || !most) row.unmapped = "has no figures";
    const std::filesystem::path arguments =
        file.parent_path() / ".." / "inputs" / "megatron_yaml" / (name + ".yaml");
    const Json degrees = Json::parse(table.at(i, "args"), nullptr, false);
    if (auto imported = import_job(arguments, degrees, row); !imported && row.unmapped.empty())
      row.unmapped = imported.error().position.key.empty()
                         ? imported.error().message
                         : fmt::format("{}: {}", imported.error().position.key, imported.error().message);
    row.job.hardware.gpu = variant.find("\"sm\":90") == std::string::npos ? kAmpereGpu : kHopperGpu;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace plimsoll
