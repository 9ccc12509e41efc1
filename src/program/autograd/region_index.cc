#include "program/autograd/region_index.h"

#include <algorithm>

namespace plimsoll::autograd {

RegionIndex::RegionIndex(const Program& forward)
    : f_(forward),
      ranges_(forward.regions.size()),
      tensors_(forward.regions.size()),
      is_found_(forward.regions.size()) {
  for (uint32_t i = 0; i < f_.statements.size(); ++i) {
    const Statement& s = f_.statements[i];
    if (s.kind == StatementKind::kBegin) ranges_[s.index].begin = i;
    if (s.kind == StatementKind::kEnd) ranges_[s.index].end = i;
  }
}

const CallTensors& RegionIndex::tensors(RegionId id) {
  CallTensors& found = tensors_[id.value];
  if (is_found_[id.value]) return found;
  is_found_[id.value] = true;
  seen_in_.resize(f_.tensors.size());
  const auto see = [&](TensorId t) {
    if (seen_in_[t.value] == id.value + 1) return false;
    seen_in_[t.value] = id.value + 1;
    found.touched.push_back(t);
    return true;
  };
  const Region& region = f_.regions[id.value];
  for (TensorId t : region.keywords)
    if (see(t)) found.outside.push_back(t);
  for (uint32_t i = ranges_[id.value].begin; i < ranges_[id.value].end; ++i) {
    const Statement& s = f_.statements[i];
    if (s.kind == StatementKind::kDrop) see(TensorId{s.index});
    if (s.kind != StatementKind::kOp) continue;
    for (TensorId t : f_.outputs(f_.ops[s.index])) see(t);
    for (TensorId t : f_.inputs(f_.ops[s.index]))
      if (see(t)) found.outside.push_back(t);
  }
  for (TensorId t : region.arguments) see(t);
  for (TensorId t : region.results) see(t);
  std::ranges::sort(found.touched);
  return found;
}

}  // namespace plimsoll::autograd
