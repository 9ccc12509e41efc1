#include <nlohmann/json.hpp>

#include "report/explain_page.h"
#include "report/holders.h"

namespace plimsoll {

std::string explain_json(const EstimateRun& run, const PhaseEstimate& phase) {
  using Json = nlohmann::ordered_json;
  Json holders = Json::array();
  if (phase.use.peak_event)
    for (const HolderGroup& g : holders_at(run, *phase.use.peak_event))
      holders.push_back({{"module", g.module},
                         {"category", name_of(g.category)},
                         {"made_by", g.made_by},
                         {"bytes_each", g.each.value},
                         {"count", g.count},
                         {"bytes", g.total().value},
                         {"born", g.born},
                         {"dies", g.dies}});
  Json json;
  json["schema"] = "plimsoll.explain/1";
  json["phase"] = name_of(phase.kind);
  json["program_phase"] = run.timeline.phases[phase.use.timeline_phase].phase;
  json["live_bytes"] = phase.use.live.value;
  json["peak_op"] = phase.use.peak_op.empty() ? Json() : Json(phase.use.peak_op);
  json["holders"] = std::move(holders);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
