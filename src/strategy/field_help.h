// The job file described for people, from the table of strategy/field.h.
//
//   std::cout << job_fields_text("batch");   // `plimsoll help job batch`; an empty section shows all
//   job_fields_markdown();                   // docs/job_file.md; a test compares
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

// Of one section, one field, or everything (empty).
Result<std::string> job_fields_text(std::string_view section_or_path);

std::string job_fields_markdown();

}  // namespace plimsoll
