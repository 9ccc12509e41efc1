// The table of traced Megatron-LM jobs: what one rank, the last of the pipeline, has allocated when memory is
// logged and at most. The argument lists lie in ../inputs/megatron_yaml beside the table's folder.
//
// Columns read: case, variant, args (the degrees and the batch as JSON), oracle_end_512, oracle_max_512.
#pragma once

#include "validation/csv.h"
#include "validation/reference_row.h"

namespace plimsoll {

std::vector<ReferenceRow> read_megatron_rows(const CsvTable& table, const std::filesystem::path& file);

}  // namespace plimsoll
