// A row of the reference traces' table (golden.csv): a job and what memory did in every phase of it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

// What was measured: living storages, or a counter of the caching allocator, or what the process takes of the
// device. All but kLive depend on the GPU.
enum class MeasuredQuantity { kLive, kAllocated, kActive, kReserved, kDevice };
std::string_view name_of(MeasuredQuantity quantity);  // "live"
std::optional<MeasuredQuantity> quantity_from_name(std::string_view name);
std::vector<std::string_view> quantity_names();

struct ReferenceRow {
  std::string id;
  MeasuredQuantity quantity = MeasuredQuantity::kLive;
  std::string family;
  std::string framework;
  std::filesystem::path config;  // empty: job.model names a preset
  Job job;
  std::optional<Architecture> architecture;    // where the job's own file says what the model is
  int64_t rank = 0;                            // which of the distinct ranks was measured
  bool sums_in_place = true;                   // false: the trace was taken with the tracing mode's own sums
  std::map<std::string, int64_t> phase_peaks;  // bytes by phase name
  std::map<std::string, int64_t> peak_categories;  // bytes by category at the training peak
  std::string peak_phase;
  std::string unmapped;  // why it can't be mapped; empty when it can
};

// Reads a table of either form: golden.csv, whose config and spec files lie beside it, or our own ledger
// (ledger.h).
Result<std::vector<ReferenceRow>> read_reference_rows(const std::filesystem::path& file);

}  // namespace plimsoll
