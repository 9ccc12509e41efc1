#include "report/compared_modules.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/module_path.h"

namespace plimsoll {
namespace {

constexpr const char* kNotKnown = "(module not known)";

// All modules of a side, and those that hold them.
std::set<std::string, std::less<>> modules_and_parents(const ModuleKnowledge& side) {
  std::set<std::string, std::less<>> all;
  for (const auto& [key, bytes] : side.known)
    for (std::string_view module = key.module; !module.empty(); module = parent_module(module))
      all.emplace(module);
  return all;
}

// "layers.0" of "FSDP::all_gather (layers.0)". Source:
// torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py.
std::optional<std::string_view> in_brackets(std::string_view name) {
  const size_t open = name.rfind('(');
  if (open == std::string_view::npos || !name.ends_with(')')) return std::nullopt;
  return name.substr(open + 1, name.size() - open - 2);
}

// A recorded side, once the other's modules are known.
class Matcher {
 public:
  explicit Matcher(const ModuleKnowledge& other) : modules_(modules_and_parents(other)) {}

  ModuleKnowledge matched(const ModuleKnowledge& recorded) {
    ModuleKnowledge result{.unknown = recorded.unknown};
    for (const auto& [named, bytes] : recorded.named) {
      const std::optional<std::string> module = first_module(named);
      if (module)
        result.known[{*module, named.role}] += bytes;
      else
        result.unknown[named.role] += bytes;
    }
    if (by_metadata_ && by_ranges_)
      result.how = "by user metadata and ranges";
    else if (by_metadata_ || by_ranges_)
      result.how = by_metadata_ ? "by user metadata" : "by record_function() ranges";
    return result;
  }

 private:
  std::optional<std::string> first_module(const ModuleKnowledge::Named& named) {
    for (size_t i = 0; i < named.names.size(); ++i) {
      std::optional<std::string> module = module_in(named.names[i]);
      if (!module) continue;
      (i == 0 && named.is_metadata ? by_metadata_ : by_ranges_) = true;
      return module;
    }
    return std::nullopt;
  }
  std::optional<std::string> module_in(std::string_view name) const {
    for (const std::optional<std::string_view> part : {std::optional(name), in_brackets(name)}) {
      if (!part) continue;
      for (const std::string& path : {folded_module(*part), folded_module(unwrapped_module(*part))})
        if (modules_.contains(path)) return path;
    }
    return std::nullopt;
  }

  std::set<std::string, std::less<>> modules_;
  bool by_metadata_ = false, by_ranges_ = false;
};

// What is known of modules within one that is the finest which `coarse` names there counts to that one.
ModuleKnowledge rolled_up(ModuleKnowledge side, const ModuleKnowledge& coarse) {
  std::set<std::string, std::less<>> named, with_named_within;
  for (const auto& [key, bytes] : coarse.known) {
    named.insert(key.module);
    for (std::string_view above = parent_module(key.module); !above.empty(); above = parent_module(above))
      with_named_within.emplace(above);
  }
  std::map<ModuleRole, Bytes> known;
  for (const auto& [key, bytes] : side.known) {
    std::string_view module = key.module;
    while (!module.empty() && !named.contains(module)) module = parent_module(module);
    const bool is_finest = !module.empty() && !with_named_within.contains(module);
    known[{is_finest ? std::string(module) : key.module, key.role}] += bytes;
  }
  side.known = std::move(known);
  return side;
}

SideOfModules side_of(const ModuleKnowledge& knowledge) {
  SideOfModules side{.how = knowledge.how};
  for (const auto& [key, bytes] : knowledge.known) side.known += bytes;
  for (const auto& [role, bytes] : knowledge.unknown) side.unknown += bytes;
  for (const auto& [named, bytes] : knowledge.named) side.unknown += bytes;
  return side;
}

std::set<std::string> roles_with_modules(const ModuleKnowledge& side) {
  std::set<std::string> roles;
  for (const auto& [key, bytes] : side.known) roles.insert(key.role);
  return roles;
}

void set_rows(const ModuleKnowledge& a, const ModuleKnowledge& b, ModuleComparison& comparison) {
  const std::set<std::string> of_a = roles_with_modules(a), of_b = roles_with_modules(b);
  std::map<ModuleRole, ModuleDifference> rows;
  const auto add = [&](const ModuleKnowledge& side, Bytes ModuleDifference::*where) {
    const auto is_of_both = [&](const std::string& role) {
      return of_a.contains(role) && of_b.contains(role);
    };
    for (const auto& [key, bytes] : side.known)
      if (is_of_both(key.role)) rows[key].*where += bytes;
    for (const auto& [role, bytes] : side.unknown)
      if (is_of_both(role)) rows[{kNotKnown, role}].*where += bytes;
  };
  add(a, &ModuleDifference::a);
  add(b, &ModuleDifference::b);
  for (auto& [key, row] : rows) {
    row.module = key.module.empty() ? "(model)" : key.module;
    row.role = key.role;
    if (row.a.value != 0 || row.b.value != 0) comparison.rows.push_back(row);
  }
  const auto rank = [](const ModuleDifference& row) {
    return std::pair(std::abs((row.b - row.a).value), std::max(row.a, row.b).value);
  };
  std::ranges::stable_sort(comparison.rows, std::greater(), rank);
  for (const std::set<std::string>* const own : {&of_a, &of_b})
    for (const std::string& role : *own)
      if (!of_a.contains(role) || !of_b.contains(role)) comparison.other_roles.push_back(role);
}

}  // namespace

ModuleComparison compare_modules(const ModuleKnowledge& a, const ModuleKnowledge& b) {
  ModuleKnowledge left = a, right = b;
  if (a.how.empty() && !b.how.empty()) {
    left = Matcher(b).matched(a);
    right = rolled_up(b, left);
  } else if (b.how.empty() && !a.how.empty()) {
    right = Matcher(a).matched(b);
    left = rolled_up(a, right);
  }
  ModuleComparison comparison{.a = side_of(left), .b = side_of(right)};
  set_rows(left, right, comparison);
  return comparison;
}

}  // namespace plimsoll
