// A row of the reference traces' table (golden.csv): a job and what memory did in every phase of it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

struct ReferenceRow {
  std::string id;
  std::string family;
  std::string framework;
  std::filesystem::path config;  // empty: job.model names a preset
  Job job;
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
