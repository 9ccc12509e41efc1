// What lies in which module, on two sides that know modules by different means, side by side.
//
// A module is known
//   of an estimate                  by its own figures;
//   of a simulated snapshot         by its stacks, whose frames are an op in a module
//                                   (trace/simulated_stack.h): of `plimsoll explain` and of `plimsoll-train`;
//   of a recorded one               by user metadata or a record_function() range that is the path of a
//                                   module of the other side, or of a module that holds some of those;
//                                   FSDP2's "FSDP::all_gather (layers.0)" names the one in brackets.
// Python's frames name a file, a line and a function: not which of the modules that share them ran, so
// nothing is concluded from them. Numbers of layers are left open on both sides. Where a recorded side names
// only "model.layers.{}", what the other has in modules of it counts to it.
//
//   const ModuleComparison modules = compare_modules(a, b);
//   modules.rows[0];   // {"model.layers.{}.mlp", "activations", a, b}: largest difference first
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace plimsoll {

struct ModuleRole {
  std::string module;  // empty: the model itself
  std::string role;    // "activations"

  friend auto operator<=>(const ModuleRole&, const ModuleRole&) = default;
};

// Of one side: what its memory says of modules.
struct ModuleKnowledge {
  std::string how;  // "as estimated"; empty: only `named` could tell
  std::map<ModuleRole, Bytes> known;
  std::map<std::string, Bytes> unknown;  // by role, of which no module is known

  // Of a recorded side: what may name a module, the likeliest first, by role.
  struct Named {
    std::vector<std::string> names;
    std::string role;
    bool is_metadata = false;  // the first of the names

    friend auto operator<=>(const Named&, const Named&) = default;
  };
  std::map<Named, Bytes> named;
};

struct ModuleDifference {
  std::string module;  // "(module not known)" too
  std::string role;
  Bytes a, b;
};

struct SideOfModules {
  std::string how;  // "by user metadata", ...; empty: it knows none
  Bytes known, unknown;
};

struct ModuleComparison {
  SideOfModules a, b;
  std::vector<ModuleDifference> rows;    // of roles of which both sides know modules
  std::vector<std::string> other_roles;  // of which one doesn't
  bool is_known() const { return !rows.empty(); }
};

ModuleComparison compare_modules(const ModuleKnowledge& a, const ModuleKnowledge& b);

}  // namespace plimsoll
