#include "simulator/event_trace.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "base/block.h"

namespace plimsoll {
namespace {

std::string_view stated_category(Category category) {
  switch (category) {
    case Category::kParameter:
    case Category::kMasterParameter:
      return "param";
    case Category::kBuffer:
      return "buffer";
    case Category::kGradient:
      return "grad";
    case Category::kOptimizerState:
      return "optim";
    case Category::kInput:
      return "input";
    case Category::kGatherBuffer:
      return "comm_allgather";
    case Category::kUnshardedParameter:
      return "comm_unsharded_param";
    case Category::kAccumulatedGradient:
      return "comm_accum_grad";
    case Category::kUnshardedGradient:
      return "temp_bwd";
    case Category::kReduceBuffer:
      return "comm_reduce";
    case Category::kCommunicationBucket:
      return "comm_bucket";
    default:
      return "";
  }
}

std::string_view temporary_of(std::string_view phase, bool outlives) {
  if (phase.starts_with("fwd")) return outlives ? "activation" : "temp_fwd";
  if (phase.starts_with("bwd")) return "temp_bwd";
  if (phase.starts_with("step")) return "temp_step";
  return phase == "eval" ? "temp_eval" : "other";
}

}  // namespace

std::vector<std::string_view> reference_categories(const Program& program, const MemoryTimeline& timeline) {
  std::vector<std::string_view> categories(timeline.events.size());
  std::vector<size_t> born(program.storages.size());
  std::vector<bool> is_live(program.storages.size());
  const auto settle = [&](size_t event, bool outlives) {
    const MemoryEvent& e = timeline.events[event];
    const std::string_view phase = timeline.phases[e.phase].phase;
    const Category category = program.storage(e.storage).category;
    std::string_view name = stated_category(category);
    // The reference knows states of optimizers; a loss scale is to it what a forward left behind.
    if (category == Category::kOptimizerState && phase.starts_with("fwd")) name = "";
    categories[event] = name.empty() ? temporary_of(phase, outlives) : name;
  };
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const MemoryEvent& e = timeline.events[i];
    if (e.is_alloc) {
      born[e.storage.value] = i;
      is_live[e.storage.value] = true;
    } else {
      const size_t birth = born[e.storage.value];
      settle(birth, timeline.events[birth].phase != e.phase);
      categories[i] = categories[birth];
      is_live[e.storage.value] = false;
    }
  }
  for (size_t s = 0; s < is_live.size(); ++s)
    if (is_live[s]) settle(born[s], true);
  return categories;
}

void write_event_trace(std::ostream& out, const Program& program, const MemoryTimeline& timeline) {
  out << "seq,phase,event,storage,bytes,rounded,total,category,op,where\n";
  const std::vector<std::string_view> categories = reference_categories(program, timeline);
  Bytes total;
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const MemoryEvent& e = timeline.events[i];
    const Bytes bytes = program.storage(e.storage).bytes;
    const Bytes rounded = round_to_block(bytes);
    total += e.is_alloc ? rounded : Bytes{0} - rounded;
    const Op& op = program.op(e.op);
    fmt::print(out, "{},{},{},{},{},{},{},{},{},{}\n", i, timeline.phases[e.phase].phase,
               e.is_alloc ? "alloc" : "free", e.storage.value, bytes.value, rounded.value, total.value,
               categories[i], aten_name_of(op.kind), e.is_alloc ? program.module_name(op.module) : "");
  }
}

}  // namespace plimsoll
