#include "cli/model_with_overrides.h"

#include "importers/hf_config/presets.h"

namespace plimsoll {

Result<Architecture> read_model_with_overrides(const ModelChoice& model, const std::filesystem::path& data) {
  if (!model.overrides.empty())
    return fail({.position = {.key = "model.overrides"},
                 .message = "overriding configuration keys is not supported yet"});
  return read_model(model.name, data, {.layers = model.layers});
}

}  // namespace plimsoll
