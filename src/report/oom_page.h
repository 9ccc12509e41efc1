// What the numbers of an out-of-memory error say: where the device's memory was, and what to try.
#pragma once

#include <string>
#include <vector>

#include "trace/memory_failure.h"
#include "trace/out_of_memory_message.h"

namespace plimsoll {

std::string oom_page(const std::string& file, const std::vector<OutOfMemoryMessage>& messages,
                     const std::vector<std::string>& notes);
// `failures`: others in the same text (report/memory_failure_page.h).
std::string oom_json(const std::string& file, const std::vector<OutOfMemoryMessage>& messages,
                     const std::vector<MemoryFailure>& failures, const std::vector<std::string>& notes);

}  // namespace plimsoll
