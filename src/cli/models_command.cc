#include "cli/models_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/data_dir.h"
#include "base/text_table.h"
#include "frameworks/pytorch/families.h"
#include "importers/hf_config/presets.h"
#include "model/family.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

// REQUIRES no alias.
bool is_estimated(std::string_view family) { return pytorch::find_family(family).has_value(); }

// "bert, bloom, ...": aliases too; and those of which only parameters are counted.
std::string families_text() {
  std::vector<std::string_view> names, counted;
  const auto add = [&](std::string_view name, std::string_view family) {
    names.push_back(name);
    if (!is_estimated(family)) counted.push_back(name);
  };
  for (const Family& family : families()) add(family.name, family.name);
  for (const FamilyAlias& alias : family_aliases()) add(alias.name, alias.family);
  std::ranges::sort(names);
  std::string text = fmt::format(
      "Families that `plimsoll estimate` takes (model_type of a config.json): {}\n", fmt::join(names, ", "));
  if (!counted.empty())
    text += fmt::format("Only counted, not estimated yet: {}\n", fmt::join(counted, ", "));
  return text;
}

std::string list_text(const std::vector<Architecture>& models) {
  TextTable table(
      {"name", "family", "parameters", "active", "layers", "hidden", "vocabulary", "positions", ""},
      {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
       Align::kRight, Align::kLeft});
  for (const Architecture& a : models) {
    const int64_t parameters = a.parameter_count(), active = a.active_parameter_count();
    table.add({a.name, a.family, with_thousands(parameters),
               active == parameters ? "-" : with_thousands(active), std::to_string(a.layers.size()),
               std::to_string(a.hidden), std::to_string(a.vocab), std::to_string(a.max_position),
               is_estimated(a.family) ? "" : "counts only"});
  }
  return table.to_text() + "\n" + families_text();
}

std::string list_json(const std::vector<Architecture>& models) {
  Json list = Json::array();
  for (const Architecture& a : models)
    list.push_back({{"name", a.name},
                    {"family", a.family},
                    {"class", a.class_name},
                    {"parameters", a.parameter_count()},
                    {"active_parameters", a.active_parameter_count()},
                    {"stored_elements", a.stored_count()},
                    {"prediction_parameters", a.prediction_parameters},
                    {"layers", a.layers.size()},
                    {"has_recipe", is_estimated(a.family)},
                    {"notes", a.notes}});
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// One model with every parameter tensor.
std::string model_text(const Architecture& a) {
  std::string text =
      fmt::format("{}: {}, {} parameters", a.name, a.class_name, with_thousands(a.parameter_count()));
  if (a.active_parameter_count() != a.parameter_count())
    text += fmt::format(", {} active", with_thousands(a.active_parameter_count()));
  if (a.prediction_parameters > 0)
    text += fmt::format("; {} more for multi-token prediction", with_thousands(a.prediction_parameters));
  text += "\n";
  for (const std::string& note : a.notes) text += fmt::format("  note: {}\n", note);
  TextTable table({"parameter", "shape", "elements", ""},
                  {Align::kLeft, Align::kLeft, Align::kRight, Align::kLeft});
  for (const ParameterTensor& p : a.parameters)
    table.add({p.name, shape_text(p.shape), with_thousands(p.elements()),
               p.tied_names.empty() ? "" : fmt::format("tied: {}", fmt::join(p.tied_names, ", "))});
  return text + table.to_text(2);
}

class ModelsCommand final : public Command {
 public:
  std::string_view name() const override { return "models"; }
  std::string_view summary() const override { return "Lists the model presets, or the tensors of one model"; }

  std::vector<Argument> arguments() override {
    return {
        {.name = "MODEL", .help = "a preset, a config.json or its folder: its tensors", .target = &model_},
        {.name = "--json", .help = "counts as JSON", .target = &as_json_}};
  }

  Result<int> run() override {
    std::vector<Architecture> models;
    if (model_) {
      PLIMSOLL_TRY(model, read_model(*model_, data_dir()));
      models.push_back(std::move(model));
    } else {
      for (const ModelPreset& preset : list_presets(data_dir())) {
        PLIMSOLL_TRY(model, read_preset(preset.name, data_dir()));
        models.push_back(std::move(model));
      }
    }
    const std::string text = as_json_ ? list_json(models)
                             : model_ ? model_text(models[0])
                                      : list_text(models);
    print_answer(text, as_json_);
    return kAnswered;
  }

 private:
  std::optional<std::string> model_;
  bool as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_models_command() { return std::make_unique<ModelsCommand>(); }

}  // namespace plimsoll
