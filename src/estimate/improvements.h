// What would help: changes of the job, each with the bytes that it saves, told by estimating the changed job.
//
//   Improvements found = find_improvements(request, estimate, {});
//   found.changes[0].settings;      // {"recompute.mode=full"}
//   found.changes[0].saved;         // of what the job would take of a device without limit
//   found.changes[0].gpu;           // the verdict of the changed job, as its own page would have it
//   found.cure;                     // of a job that doesn't fit: the cheapest change, or several, that does
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

inline constexpr Bytes kLeastSaving = kGiB / 200;  // less is 0.00 GiB on the page

struct Change {
  std::vector<std::string> settings;  // as --set takes them
  std::string price;                  // what it costs
  Bytes device_peak;                  // Estimate::device_peak() of the changed job
  Bytes wanted;                       // Estimate::wanted(): on a device without limit
  Bytes saved;                        // of what the job wants
  Bytes host_peak, host_saved;        // of one rank's process
  Fit gpu = Fit::kFits, host = Fit::kFits;
  bool is_combination = false;  // of other changes

  Fit worst() const { return std::max(gpu, host); }
  std::string to_text() const;  // "recompute.mode=full"
};

struct Improvements {
  std::vector<Change> changes;              // that save something, in the order of the checklist
  std::vector<std::string> without_effect;  // tried, saves nothing worth a line
  std::vector<std::string> unsupported;     // "loss.path=chunked (why)"
  std::vector<std::string> untried;  // the program is too large to try all: ImprovementOptions::tries_all
  // Of a job that doesn't fit: the cheapest change, or several, that does (find_cure() says what is cheap);
  // where there is none, of a job that runs out of memory one that is at risk.
  std::optional<Change> cure;
  bool is_search_cut = false;  // for the cure: the program is too large, a cheaper one may have been missed
};

struct ImprovementOptions {
  bool tries_all = false;
  unsigned threads = 1;
};

// REQUIRES `run` of the same request.
Improvements find_improvements(const EstimateRequest& request, const EstimateRun& run,
                               const ImprovementOptions& options);

}  // namespace plimsoll
