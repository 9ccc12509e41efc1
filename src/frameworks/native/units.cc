#include "frameworks/native/units.h"

#include <optional>

#include "base/units.h"

namespace plimsoll::native {
namespace {

// "model.layers.3.mlp.up_proj.weight" -> "model.layers.3"
std::string block_name(const ParameterTensor& p) {
  const std::string number = std::to_string(*p.layer);
  const size_t at = p.name.find("." + number + ".");
  return p.name.substr(0, at + 1 + number.size());
}

void append(Unit& unit, size_t parameter, int64_t elements) {
  unit.tensors.push_back({.parameter = parameter, .offset = unit.elements, .elements = elements});
  unit.elements = round_up(unit.elements + elements, kUnitAlignment);
}

}  // namespace

std::vector<Unit> make_units(const Architecture& architecture, int64_t ranks) {
  std::vector<Unit> units;
  units.push_back(architecture.is_tied ? Unit{.kind = UnitKind::kRoot, .name = "root"}
                                       : Unit{.kind = UnitKind::kEmbedding, .name = "embedding"});
  for (size_t i = 0; i < architecture.layers.size(); ++i) units.push_back({.kind = UnitKind::kBlock});
  if (!architecture.is_tied) units.push_back({.kind = UnitKind::kHead, .name = "head"});
  bool is_past_blocks = false;
  for (size_t i = 0; i < architecture.parameters.size(); ++i) {
    const ParameterTensor& p = architecture.parameters[i];
    size_t unit = is_past_blocks && !architecture.is_tied ? units.size() - 1 : 0;
    if (p.layer) {
      is_past_blocks = true;
      unit = 1 + static_cast<size_t>(*p.layer);
      units[unit].name = block_name(p);
    }
    append(units[unit], i, p.elements());
  }
  for (Unit& unit : units) unit.elements = round_up(unit.elements, kUnitAlignment * ranks);
  return units;
}

}  // namespace plimsoll::native
