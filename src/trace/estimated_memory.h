// What a printed estimate says of a job's memory; plain data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace plimsoll {

struct EstimatedModule {
  std::string module;    // "model.layers.{}.mlp.down_proj"; empty: the model itself
  std::string category;  // "parameter"
  Bytes bytes;

  friend bool operator==(const EstimatedModule&, const EstimatedModule&) = default;
};

struct EstimatedPhase {
  std::string name;                                       // "steady_step"
  Bytes allocated, active, reserved;                      // peaks
  std::vector<std::pair<std::string, Bytes>> categories;  // "parameter": of the allocated peak
  std::vector<EstimatedModule> modules;  // of the live peak; empty: the estimate doesn't name any

  friend bool operator==(const EstimatedPhase&, const EstimatedPhase&) = default;
};

struct EstimatedMemory {
  std::vector<EstimatedPhase> phases;  // at least one
};

}  // namespace plimsoll
