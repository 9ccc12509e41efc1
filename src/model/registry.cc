// The list of families. A family is added by its include and its line in all_rows().
#include <algorithm>
#include <iterator>

#include "model/families/bert.h"
#include "model/families/bloom.h"
#include "model/families/cohere.h"
#include "model/families/deepseek.h"
#include "model/families/falcon.h"
#include "model/families/gemma.h"
#include "model/families/glm.h"
#include "model/families/gpt2.h"
#include "model/families/gpt_neox.h"
#include "model/families/gpt_oss.h"
#include "model/families/llama.h"
#include "model/families/llama4.h"
#include "model/families/mixture.h"
#include "model/families/modernbert.h"
#include "model/families/olmo.h"
#include "model/families/opt.h"
#include "model/families/phi.h"
#include "model/families/stablelm.h"
#include "model/families/starcoder2.h"
#include "model/family.h"

namespace plimsoll {
namespace {

std::vector<Family> all_rows() {
  std::vector<Family> all;
  for (const auto& group : {
           bert_families(),     bloom_families(),      cohere_families(),     deepseek_families(),
           falcon_families(),   gemma_families(),      glm_families(),        gpt2_families(),
           gpt_neox_families(), gpt_oss_families(),    llama_families(),      llama4_families(),
           mixture_families(),  modernbert_families(), olmo_families(),       opt_families(),
           phi_families(),      stablelm_families(),   starcoder2_families(),
       }) {
    all.insert(all.end(), group.begin(), group.end());
  }
  std::sort(all.begin(), all.end(), [](const Family& a, const Family& b) { return a.name < b.name; });
  return all;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = all_rows();
  return all;
}

const std::vector<FamilyAlias>& family_aliases() {
  static const std::vector<FamilyAlias> all = {
      {.name = "gemma3", .family = "gemma3_text", .nested_key = "text_config"},
      {.name = "kimi_k2", .family = "deepseek_v3", .nested_key = ""},
      {.name = "llama4", .family = "llama4_text", .nested_key = "text_config"},
      {.name = "qwen3_vl", .family = "qwen3", .nested_key = "text_config"},
  };
  return all;
}

const Family* find_family(std::string_view name) {
  const auto& all = families();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Family& f) { return f.name == name; });
  return it == all.end() ? nullptr : &*it;
}

std::string supported_families() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.push_back(family.name);
  for (const FamilyAlias& alias : family_aliases()) names.push_back(alias.name);
  std::sort(names.begin(), names.end());
  std::string text;
  for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace plimsoll
