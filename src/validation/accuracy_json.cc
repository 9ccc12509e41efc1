#include <nlohmann/json.hpp>

#include "validation/accuracy.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

Json summary_json(const AccuracySummary& s) {
  Json json;
  if (!s.name.empty()) json["family"] = s.name;
  json["rows"] = s.rows;
  json["mapped"] = s.mapped;
  json["exact"] = s.exact;
  json["with_categories"] = s.with_categories;
  json["equal_categories"] = s.equal_categories;
  json["median"] = s.median;
  json["p95"] = s.p95;
  json["worst"] = s.worst;
  return json;
}

Json row_json(const RowComparison& c, const std::string& phase, int64_t measured) {
  return {{"id", c.row->id},      {"quantity", name_of(c.row->quantity)},
          {"phase", phase},       {"measured", measured},
          {"predicted", nullptr}, {"relative_error", nullptr},
          {"status", "unmapped"}, {"reason", c.unmapped.empty() ? Json() : Json(c.unmapped)}};
}

void add_rows(Json& rows, const RowComparison& c) {
  if (!c.is_mapped())
    for (const auto& [phase, measured] : c.row->phase_peaks) rows.push_back(row_json(c, phase, measured));
  for (const PhaseComparison& p : c.phases) {
    Json row = row_json(c, p.phase, p.measured);
    row["predicted"] = p.predicted;
    row["relative_error"] = p.relative_error();
    row["status"] = "mapped";
    rows.push_back(std::move(row));
  }
}

void add_categories(Json& categories, const RowComparison& c) {
  if (!c.has_categories()) return;
  Json measured = Json::object(), predicted = Json::object();
  for (const auto& [name, bytes] : c.categories) {
    measured[name] = bytes.first;
    predicted[name] = bytes.second;
  }
  categories.push_back({{"id", c.row->id},
                        {"phase", c.row->peak_phase},
                        {"measured", std::move(measured)},
                        {"predicted", std::move(predicted)},
                        {"equal", c.has_equal_categories()}});
}

}  // namespace

std::string Accuracy::to_json() const {
  Json json;
  json["schema"] = "plimsoll.validate/1";
  json["summary"] = summary_json(summary_);
  Json families = Json::array(), rows = Json::array(), categories = Json::array();
  for (const AccuracySummary& f : families_) families.push_back(summary_json(f));
  for (const RowComparison& c : comparisons_) {
    add_rows(rows, c);
    add_categories(categories, c);
  }
  json["families"] = std::move(families);
  json["rows"] = std::move(rows);
  json["categories"] = std::move(categories);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
