// Reads a memory snapshot of PyTorch: what torch.cuda.memory._dump_snapshot() and _snapshot() give (a pickle
// of plain data), plain or gzip, by the Python and the C++ writer, in the layouts of PyTorch 1.12 to 2.14.
// Nothing in the file is run.
//
//   PLIMSOLL_TRY(snapshot, read_torch_snapshot("snapshot.pickle", {}));
//   for (const AllocationTrace& trace : snapshot.devices) ...
//
// Memory is in proportion to the events kept. Errors: a file that is no such pickle, that names code, ends
// early, or whose segments aren't tiled by their blocks; with the byte. What can be read but isn't whole is
// counted in `imperfections`.
// Source: torch/csrc/cuda/memory_snapshot.cpp, torch/csrc/cuda/Module.cpp, torch/cuda/_memory_viz.py.
// Does not read: the segments and traces of pinned host memory (host_segments, host_traces: counted); of an
// event compile_context and internal_metadata, of a frame what augment_with_fx_traces adds; settings that
// change no size on the device (release_lock_on_cudamalloc, pinned_*, graph_capture_record_stream_reuse).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "importers/byte_source.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

struct TorchSnapshot {
  std::vector<AllocationTrace> devices;  // those with segments or events, by device
  std::vector<TraceImperfection> imperfections;
};

struct ReadSnapshotOptions {
  std::function<void(uint64_t)> on_progress;  // bytes of the file that have been read
};

// Whether these first bytes may be a snapshot: a pickle or gzip.
bool sniff_torch_snapshot(std::string_view first_bytes);
Result<TorchSnapshot> read_torch_snapshot(const std::filesystem::path& path,
                                          const ReadSnapshotOptions& options = {});
// Of what has been opened; the name is for errors.
Result<TorchSnapshot> read_torch_snapshot(ByteSource& source, const std::string& name,
                                          const ReadSnapshotOptions& options = {});
Result<TorchSnapshot> read_torch_snapshot_bytes(std::string_view bytes, const std::string& name);

}  // namespace plimsoll
