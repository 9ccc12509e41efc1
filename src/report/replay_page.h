// What `plimsoll replay` prints of one device of a snapshot.
#pragma once

#include <string>
#include <vector>

#include "replay/analysis.h"
#include "trace/allocation_trace.h"

namespace plimsoll {

struct DeviceReplay {
  const AllocationTrace* trace = nullptr;
  SnapshotAnalysis analysis;
};

struct ReplayPageOptions {
  size_t most_lines = 15;   // of code; the rest is summed up
  std::string device_text;  // of the device that was asked for
};

std::string replay_page(const std::string& file, const DeviceReplay& device,
                        const ReplayPageOptions& options = {});
// All devices: those beyond the first under "devices".
std::string replay_json(const std::string& file, const std::vector<DeviceReplay>& devices,
                        const std::vector<TraceImperfection>& imperfections);

}  // namespace plimsoll
