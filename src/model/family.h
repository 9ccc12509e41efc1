// One model family: how its configuration's keys become shapes, and how the reference implementation (Hugging
// Face Transformers 5.24, models/<family>/modeling_<family>.py) names and orders its tensors.
//
// A family is a row of data and two functions; it is added by a file in families/ and a line in registry.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "model/config_reader.h"

namespace plimsoll {

struct Family {
  std::string_view name;        // model_type: "llama"
  std::string_view class_name;  // "LlamaForCausalLM"
  // Fills sizes and layers, without tensors. Problems go into the reader; what was filled is then not used.
  void (*read)(ConfigReader&, Architecture&) = nullptr;
  // Fills parameters and buffers from a valid architecture.
  void (*list_tensors)(Architecture&) = nullptr;
  // Keys beyond the common ones that say nothing about memory ("summary_type").
  std::vector<std::string_view> harmless_keys;
};

// A model_type that wraps or renames a family: "gemma3" holds a "gemma3_text" in its "text_config".
struct FamilyAlias {
  std::string_view name;
  std::string_view family;
  std::string_view nested_key;  // empty: a mere other name
};

const std::vector<Family>& families();             // sorted by name
const std::vector<FamilyAlias>& family_aliases();  // sorted by name
const Family* find_family(std::string_view name);  // not aliases; nullptr: unknown
std::string supported_families();                  // "bert, bloom, ...", aliases too

}  // namespace plimsoll
