#include "program/program.h"

#include <array>

namespace plimsoll {
namespace {

struct OpNames {
  std::string_view name;
  std::string_view aten_name;
  OpClass op_class;
};
constexpr OpNames kOps[] = {
#define X(kind, name, cls) {std::string_view(#kind).substr(1), "aten::" name, OpClass::cls},
    PLIMSOLL_OPS(X)
#undef X
};

// Names by value of the enum.
template <typename Enum>
struct Names;
template <>
struct Names<Category> {
  static constexpr std::array<std::string_view, kCategoryCount> kAll = {"parameter",
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
};
template <>
struct Names<Tier> {
  static constexpr std::array<std::string_view, kTierCount> kAll = {"gpu", "host_pinned", "host", "disk"};
};
template <>
struct Names<Holder> {
  static constexpr std::array<std::string_view, 6> kAll = {"local",         "saved",     "gradient",
                                                           "communication", "optimizer", "persistent"};
};
template <>
struct Names<Stream> {
  static constexpr std::array<std::string_view, kStreamCount> kAll = {
      "compute", "all_gather", "reduce_scatter", "all_reduce",
      "copy_in", "copy_out",   "disk_read",      "disk_write"};
};
template <>
struct Names<RegionKind> {
  static constexpr std::array<std::string_view, 5> kAll = {"model", "embedding", "block", "head", "loss"};
};
template <>
struct Names<Checkpoint> {
  static constexpr std::array<std::string_view, 4> kAll = {"none", "non_reentrant", "reentrant", "selective"};
};

template <typename Enum>
std::string_view name_in_table(Enum value) {
  return Names<Enum>::kAll[static_cast<size_t>(value)];
}

}  // namespace

std::string_view name_of(OpKind kind) { return kOps[static_cast<size_t>(kind)].name; }
std::string_view aten_name_of(OpKind kind) {
  const OpNames& row = kOps[static_cast<size_t>(kind)];
  constexpr size_t kPrefix = 6;  // "aten::"
  const std::string_view name = row.aten_name.substr(kPrefix);
  const bool is_aten = row.op_class != OpClass::kFramework && kind != OpKind::kBoundary &&
                       kind != OpKind::kPartialGradient && name.find("::") == std::string_view::npos;
  return is_aten ? row.aten_name : name;
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

std::string_view name_of(Category category) { return name_in_table(category); }
std::string_view name_of(Tier tier) { return name_in_table(tier); }
std::string_view name_of(Holder holder) { return name_in_table(holder); }
std::string_view name_of(Stream stream) { return name_in_table(stream); }
std::string_view name_of(RegionKind kind) { return name_in_table(kind); }
std::string_view name_of(Checkpoint checkpoint) { return name_in_table(checkpoint); }

template <typename Enum>
std::optional<Enum> enum_from_name(std::string_view name) {
  for (size_t i = 0; i < Names<Enum>::kAll.size(); ++i)
    if (Names<Enum>::kAll[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}
template std::optional<Category> enum_from_name(std::string_view);
template std::optional<Tier> enum_from_name(std::string_view);
template std::optional<Holder> enum_from_name(std::string_view);
template std::optional<Stream> enum_from_name(std::string_view);
template std::optional<RegionKind> enum_from_name(std::string_view);
template std::optional<Checkpoint> enum_from_name(std::string_view);

ModuleId Program::module(std::string_view name) {
  const auto [found, is_new] =
      module_index_.try_emplace(std::string(name), static_cast<uint32_t>(modules.size()));
  if (is_new) modules.emplace_back(name);
  return ModuleId{found->second};
}

void Program::reserve(const Program& other, size_t times) {
  storages.reserve(other.storages.size() * times);
  tensors.reserve(other.tensors.size() * times);
  ops.reserve(other.ops.size() * times);
  operands.reserve(other.operands.size() * times);
  attributes.reserve(other.attributes.size() * times);
  statements.reserve(other.statements.size() * times);
}

uint32_t Program::add_attributes(const Attributes& a) {
  if (std::holds_alternative<std::monostate>(a)) return 0;
  attributes.push_back(a);
  return static_cast<uint32_t>(attributes.size() - 1);
}

}  // namespace plimsoll
