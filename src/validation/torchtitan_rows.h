// The table of traced torchtitan jobs: its columns `spec` (the tracer's options, JSON) and `phase_peaks`.
//
// The tracer builds the whole model on the device where torchtitan builds it on the meta device, so `load` is
// not compared; `ready`, which begins with the shards and ends with the inputs, is compared with our loading.
#pragma once

#include "validation/csv.h"
#include "validation/reference_row.h"

namespace plimsoll {

// A row that can't be mapped says why.
std::vector<ReferenceRow> read_torchtitan_rows(const CsvTable& table);

}  // namespace plimsoll
