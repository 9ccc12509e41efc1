// Our own ledger of measured and traced runs (validation/*.csv): jobs on presets with what memory did in
// every phase.
//
// Columns: docs/measured_rows.md.
#pragma once

#include "validation/csv.h"
#include "validation/reference_row.h"

namespace plimsoll {

// Errors: a setting that is none, a number that is none, a missing column; with the row's line.
Result<std::vector<ReferenceRow>> read_ledger_rows(const CsvTable& table, const std::string& file);

}  // namespace plimsoll
