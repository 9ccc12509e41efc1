// Our own ledger of measured and traced runs (validation/*.csv): jobs on presets with what memory did in
// every phase.
//
// Columns: id; model (a preset) and layers (empty: all); settings ("batch.sequence=2048 optimizer.name=sgd",
// as --set takes them); quantity (live); peaks ("fwd1:123 bwd1:456", bytes by phase); peak_phase and
// categories ("param:1 grad:2", bytes alive at the training peak); source.
#pragma once

#include "validation/csv.h"
#include "validation/reference_row.h"

namespace plimsoll {

// Errors: a setting that is none, a number that is none, a missing column; with the row's line.
Result<std::vector<ReferenceRow>> read_ledger_rows(const CsvTable& table, const std::string& file);

}  // namespace plimsoll
