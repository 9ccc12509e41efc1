#include <nlohmann/json.hpp>
#include <set>

#include "report/compare_page.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

Json bytes_json(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->value) : Json(); }

Json side(const MemoryProfile& p) {
  return {{"name", p.name},
          {"peak_allocated_bytes", bytes_json(p.allocated)},
          {"peak_active_bytes", bytes_json(p.active)},
          {"peak_reserved_bytes", bytes_json(p.reserved)}};
}

Json rows(const std::map<std::string, Bytes>& a, const std::map<std::string, Bytes>& b) {
  std::set<std::string> names;
  for (const auto& [name, bytes] : a) names.insert(name);
  for (const auto& [name, bytes] : b) names.insert(name);
  Json all = Json::array();
  for (const std::string& name : names) {
    const int64_t left = a.contains(name) ? a.at(name).value : 0,
                  right = b.contains(name) ? b.at(name).value : 0;
    all.push_back(
        {{"name", name}, {"a_bytes", left}, {"b_bytes", right}, {"difference_bytes", right - left}});
  }
  return all;
}

Json side(const SideOfModules& side) {
  return {{"how", side.how.empty() ? Json() : Json(side.how)},
          {"known_bytes", side.known.value},
          {"unknown_bytes", side.unknown.value}};
}

Json modules_json(const ModuleComparison& modules) {
  Json rows = Json::array();
  for (const ModuleDifference& row : modules.rows)
    rows.push_back({{"module", row.module},
                    {"category", row.role},
                    {"a_bytes", row.a.value},
                    {"b_bytes", row.b.value},
                    {"difference_bytes", (row.b - row.a).value}});
  return {{"a", side(modules.a)},
          {"b", side(modules.b)},
          {"rows", std::move(rows)},
          {"other_categories", modules.other_roles}};
}

}  // namespace

std::string compare_json(const MemoryProfile& a, const MemoryProfile& b) {
  Json json = {{"schema", "plimsoll.compare/1"}, {"a", side(a)}, {"b", side(b)}};
  json["categories"] = rows(a.categories, b.categories);
  json["places"] = a.places.empty() || b.places.empty() ? Json::array() : rows(a.places, b.places);
  json["modules"] = modules_json(compare_modules(a.modules, b.modules));
  Json notes = Json::array();
  for (const std::string& note : a.notes) notes.push_back("A: " + note);
  for (const std::string& note : b.notes) notes.push_back("B: " + note);
  json["notes"] = std::move(notes);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
