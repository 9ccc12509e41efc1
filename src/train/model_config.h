// The configuration of the model that a job trains, as Transformers reads it: what the job replaces in the
// preset or file is replaced, the weights' type is fp32.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "importers/hf_config/overrides.h"
#include "model/architecture.h"

namespace plimsoll {

// `file` is the configuration that `architecture` was read from, with these overrides and number of layers.
Result<std::string> model_config_text(const std::filesystem::path& file, const ConfigOverrides& overrides,
                                      const Architecture& architecture);

// Errors: the configurations are of different models, with the first key that tells so. Keys that say nothing
// of what is computed (versions, token ids, dtypes) may differ. `saved_file` is for messages.
Result<void> check_same_model(std::string_view saved, const std::string& saved_file,
                              std::string_view current);

}  // namespace plimsoll
