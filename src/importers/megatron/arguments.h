// Megatron-LM's command line as it stands in files: one argument a line ("--num-layers 12"), or a YAML
// mapping under MODEL_ARGS as the functional tests of Megatron-LM have it, with the environment under
// ENV_VARS.
//
//   PLIMSOLL_TRY(arguments, read_megatron_arguments("model_config.yaml"));
//   arguments.find("--num-layers")->values[0];
//
// Nothing is executed and no variable is replaced. Errors: a file that is neither; an argument given twice
// with different values.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll {

struct MegatronArgument {
  std::string name;                 // "--num-layers"
  std::vector<std::string> values;  // none: a flag
  int line = 0;
};

struct MegatronArguments {
  std::string file;
  std::vector<MegatronArgument> all;
  std::map<std::string, std::string> environment;
  bool has_transformer_engine = true;  // false: the file's BEFORE_SCRIPT uninstalls it

  const MegatronArgument* find(std::string_view name) const;
};

// Whether a text looks like one of them; reads no more than its beginning.
bool sniff_megatron_arguments(std::string_view text);
Result<MegatronArguments> read_megatron_arguments(const std::filesystem::path& path);
// `file` goes into messages.
Result<MegatronArguments> read_megatron_arguments_text(std::string_view text, const std::string& file);

}  // namespace plimsoll
