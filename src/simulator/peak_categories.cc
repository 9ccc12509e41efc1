#include "simulator/peak_categories.h"

#include "base/block.h"

namespace plimsoll {
namespace {

bool has_own_category(Category category) {
  return category != Category::kActivation && category != Category::kTemporary;
}

// What is copied to the host and comes back was kept all the while, on another tier.
std::vector<bool> offloaded_storages(const Program& program) {
  std::vector<bool> is_offloaded(program.storages.size());
  for (const Op& op : program.ops)
    if (op.kind == OpKind::kCopyToHost)
      for (TensorId t : program.inputs(op)) is_offloaded[program.tensor(t).storage.value] = true;
  return is_offloaded;
}

}  // namespace

std::vector<Category> shown_categories(const Program& program, const MemoryTimeline& timeline) {
  std::vector<Category> shown(timeline.events.size());
  std::vector<uint32_t> born(program.storages.size());
  const std::vector<bool> is_offloaded = offloaded_storages(program);
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const MemoryEvent& e = timeline.events[i];
    const Category stated = program.storage(e.storage).category;
    if (e.is_alloc) {
      const bool in_forward = timeline.phases[e.phase].phase.starts_with("fwd");
      shown[i] = has_own_category(stated) || is_offloaded[e.storage.value] ? stated
                 : in_forward ? Category::kActivation  // unless a free in this phase comes
                              : Category::kTemporary;
      born[e.storage.value] = static_cast<uint32_t>(i);
      continue;
    }
    const uint32_t birth = born[e.storage.value];
    if (shown[birth] == Category::kActivation && timeline.events[birth].phase == e.phase &&
        !is_offloaded[e.storage.value])
      shown[birth] = Category::kTemporary;
    shown[i] = shown[birth];
  }
  return shown;
}

std::vector<CategoryBytes> categories_at_peaks(const Program& program, const MemoryTimeline& timeline,
                                               const std::vector<Category>& shown) {
  std::vector<CategoryBytes> at_peaks(timeline.phases.size());
  CategoryBytes now;
  size_t event = 0;
  for (size_t p = 0; p < timeline.phases.size(); ++p) {
    at_peaks[p] = now;
    for (; event < timeline.events.size() && timeline.events[event].phase == p; ++event) {
      const Storage& storage = program.storage(timeline.events[event].storage);
      if (storage.tier != Tier::kGpu) continue;
      const Bytes bytes = round_to_block(storage.bytes);
      Bytes& of_category = now[static_cast<size_t>(shown[event])];
      of_category += timeline.events[event].is_alloc ? bytes : Bytes{0} - bytes;
      if (timeline.phases[p].peak_event == event) at_peaks[p] = now;
    }
  }
  return at_peaks;
}

}  // namespace plimsoll
