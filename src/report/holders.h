// Who is alive at a moment of a run: storages that differ only in their layer's number are one line.
//
//   std::vector<HolderGroup> groups = holders_at(run, event);   // largest first
//   groups[0].module;   // "model.layers.{0..31}.mlp.down_proj"
#pragma once

#include <string>
#include <vector>

#include "estimate/estimate.h"

namespace plimsoll {

struct HolderGroup {
  std::string module;  // owner of the storages; numbers in it folded
  Category category = Category::kActivation;
  std::string made_by;  // op: "aten::mm.default"
  Bytes each;           // of one storage, rounded up to 512
  int64_t count = 0;
  std::string born, dies;  // program phases: "fwd2", "bwd2"; "never" when it outlives the run

  Bytes total() const { return each * count; }
};

// REQUIRES run.timeline.events kept, event among them.
std::vector<HolderGroup> holders_at(const EstimateRun& run, size_t event);

// "model.layers.3.mlp" -> {"model.layers.{}.mlp", 3}: the first number of the path.
struct FoldedPath {
  std::string pattern;
  std::optional<int64_t> number;
};
FoldedPath fold_path(const std::string& module);

// "0..31", "0, 4, 8": the sorted numbers of a folded path.
std::string numbers_text(const std::vector<int64_t>& numbers);

}  // namespace plimsoll
