// Reads what `plimsoll estimate ... --json` prints, of schema plimsoll.estimate/1 (docs/json.md).
//
//   PLIMSOLL_TRY(memory, read_estimate_json(text, "plan.json"));
//   memory.phases[0].allocated;
//
// Errors: what is no JSON object, another schema, a phase without its figures, a figure that is no number of
// bytes; with line and column.
// Does not read: anything but the phases' memory.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "trace/estimated_memory.h"

namespace plimsoll {

// Whether the text may be an estimate, of whichever version.
bool sniff_estimate_json(std::string_view first_bytes);
Result<EstimatedMemory> read_estimate_json(std::string_view text, const std::string& file);

}  // namespace plimsoll
