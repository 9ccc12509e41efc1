#include "program/program.h"

#include <array>

namespace plimsoll {
namespace {

struct OpRow {
  std::string_view name;
  std::string_view aten_name;
  OpClass op_class;
};
constexpr OpRow kOps[] = {
#define X(kind, name, cls) {std::string_view(#kind).substr(1), "aten::" name, OpClass::cls},
    PLIMSOLL_OPS(X)
#undef X
};

constexpr std::array<std::string_view, kCategoryCount> kCategories = {"parameter",
                                                                      "master_parameter",
                                                                      "buffer",
                                                                      "gradient",
                                                                      "optimizer_state",
                                                                      "input",
                                                                      "activation",
                                                                      "temporary",
                                                                      "logits",
                                                                      "gather_buffer",
                                                                      "unsharded_parameter",
                                                                      "unsharded_gradient",
                                                                      "accumulated_gradient",
                                                                      "reduce_buffer",
                                                                      "communication_bucket",
                                                                      "workspace"};

}  // namespace

std::string_view name_of(OpKind kind) { return kOps[static_cast<size_t>(kind)].name; }
std::string_view aten_name_of(OpKind kind) {
  const OpRow& row = kOps[static_cast<size_t>(kind)];
  const bool is_aten = row.op_class != OpClass::kFramework && kind != OpKind::kBoundary &&
                       kind != OpKind::kFunctionalAllReduce && kind != OpKind::kPartialGradient;
  return is_aten ? row.aten_name : row.aten_name.substr(6);
}
OpClass class_of(OpKind kind) { return kOps[static_cast<size_t>(kind)].op_class; }

std::optional<OpKind> op_kind_from_name(std::string_view name) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, OpKind>;
    for (size_t i = 0; i < std::size(kOps); ++i) map->emplace(kOps[i].name, static_cast<OpKind>(i));
    return map;
  }();
  const auto found = index->find(name);
  if (found == index->end()) return std::nullopt;
  return found->second;
}

std::span<const OpKind> all_op_kinds() {
  static constexpr OpKind kKinds[] = {
#define X(kind, name, cls) OpKind::kind,
      PLIMSOLL_OPS(X)
#undef X
  };
  return kKinds;
}

std::string_view name_of(Category category) { return kCategories[static_cast<size_t>(category)]; }

std::optional<Category> category_from_name(std::string_view name) {
  for (size_t i = 0; i < kCategories.size(); ++i)
    if (kCategories[i] == name) return static_cast<Category>(i);
  return std::nullopt;
}

std::string_view name_of(Tier tier) {
  switch (tier) {
    case Tier::kGpu:
      return "gpu";
    case Tier::kHostPinned:
      return "host_pinned";
    case Tier::kHost:
      return "host";
    case Tier::kNvme:
      return "nvme";
  }
  return "?";
}

std::string_view name_of(Holder holder) {
  switch (holder) {
    case Holder::kLocal:
      return "local";
    case Holder::kSaved:
      return "saved";
    case Holder::kGradient:
      return "gradient";
    case Holder::kCommunication:
      return "communication";
    case Holder::kOptimizer:
      return "optimizer";
    case Holder::kPersistent:
      return "persistent";
  }
  return "?";
}

ModuleId Program::module(std::string_view name) {
  const auto [found, is_new] =
      module_index_.try_emplace(std::string(name), static_cast<uint32_t>(modules.size()));
  if (is_new) modules.emplace_back(name);
  return ModuleId{found->second};
}

uint32_t Program::add_attributes(const Attributes& a) {
  if (std::holds_alternative<std::monostate>(a)) return 0;
  attributes.push_back(a);
  return static_cast<uint32_t>(attributes.size() - 1);
}

}  // namespace plimsoll
