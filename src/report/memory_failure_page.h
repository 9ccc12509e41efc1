// Deaths for want of memory that give no account of it: whose memory ran out, and what helps.
#pragma once

#include <string>
#include <vector>

#include "trace/memory_failure.h"

namespace plimsoll {

std::string_view name_of(MemoryFailureKind kind);  // "nccl", "slurm-kill": of JSON
// Whose memory: "the host's RAM", "the GPU's, beside PyTorch's allocator".
std::string_view memory_of(MemoryFailureKind kind);
// What happened, in a sentence.
std::string_view meaning_of(MemoryFailureKind kind);
// What to do next, sentences.
std::vector<std::string_view> help_of(MemoryFailureKind kind);

// In one line, beside something else that is explained.
std::string note_of(const MemoryFailure& failure);
std::string memory_failure_page(const std::string& file, const std::vector<MemoryFailure>& failures,
                                const std::vector<std::string>& notes);

}  // namespace plimsoll
