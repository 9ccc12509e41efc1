// Reads the memory of a Chrome trace by PyTorch's profiler (Kineto), recorded with profile_memory=True: its
// "[memory]" and "[OutOfMemory]" instants. Plain or gzip, of any size: memory is in proportion to the
// instants.
//
//   prof.export_chrome_trace("trace.json.gz")
//   PLIMSOLL_TRY(memory, read_kineto_trace("trace.json.gz"));
//
// Lenient: unescaped quotation marks in names, events that are broken otherwise (counted and passed over).
// Errors: what is no such trace, ends early, is nested too deep, or has no memory instants; with the byte.
// Source: torch/csrc/autograd/profiler_kineto.cpp, libkineto/src/output_json.cpp.
// Does not read: ops and kernels; stacks, which the instants don't have.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "importers/byte_source.h"
#include "trace/profiled_memory.h"

namespace plimsoll {

bool sniff_kineto_trace(std::string_view first_bytes);
Result<ProfiledMemory> read_kineto_trace(const std::filesystem::path& path,
                                         const std::function<void(uint64_t)>& on_progress = {});
// Of what has been opened; the name is for errors.
Result<ProfiledMemory> read_kineto_trace(ByteSource& source, const std::string& name,
                                         const std::function<void(uint64_t)>& on_progress = {});
Result<ProfiledMemory> read_kineto_trace_bytes(std::string_view bytes, const std::string& name);

}  // namespace plimsoll
