// The list of families. A family is added by its include and its line in all_rows().
#include <algorithm>
#include <iterator>

#include "model/families/gpt2.h"
#include "model/families/llama.h"
#include "model/family.h"

namespace plimsoll {
namespace {

std::vector<Family> all_rows() {
  std::vector<Family> all;
  for (const auto& group : {
           gpt2_families(),
           llama_families(),
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
