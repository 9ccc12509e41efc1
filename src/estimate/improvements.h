// What would help: changes of the job, each with the bytes that it saves, told by estimating the changed job.
//
//   Improvements found = find_improvements(request, estimate, {});
//   found.changes[0].settings;      // {"recompute.mode=full"}
//   found.changes[0].saved;         // of the device peak
//   found.cure;                     // of a job that runs out of memory: the cheapest change, or several
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

struct Change {
  std::vector<std::string> settings;  // as --set takes them
  std::string price;                  // what it costs
  Bytes device_peak;                  // of the changed job
  Bytes saved;
  bool runs = false;            // within the GPU's memory
  bool is_combination = false;  // of other changes

  std::string to_text() const;  // "recompute.mode=full"
};

struct Improvements {
  std::vector<Change> changes;              // that save something, in the order of the checklist
  std::vector<std::string> without_effect;  // tried, saves nothing
  std::vector<std::string> unsupported;     // "loss.path=chunked (why)"
  std::vector<std::string> untried;  // the program is too large to try all: ImprovementOptions::tries_all
  std::optional<Change> cure;
};

struct ImprovementOptions {
  bool tries_all = false;
  unsigned threads = 1;
};

// REQUIRES `run` of the same request.
Improvements find_improvements(const EstimateRequest& request, const EstimateRun& run,
                               const ImprovementOptions& options);

}  // namespace plimsoll
