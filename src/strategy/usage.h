// Which fields tell in a given job, so that one without effect never passes silently.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

struct Unused {
  std::string needs;         // "parallel.engine = fsdp2"
  bool is_harmless = false;  // worth a note only, whatever the value
};

// Empty: the field has an effect.
std::optional<Unused> why_unused(std::string_view path, const ResolvedJob& resolved,
                                 const Architecture& architecture);

// Notes for `plimsoll train`: given fields that the job's optimizer doesn't read.
std::vector<std::string> notes_on_optimizer(const Job& job);
// ... a schedule that the run ends before; other fields that nothing reads in this job.
std::vector<std::string> notes_on_training(const Job& job);

}  // namespace plimsoll
