#include "hardware/gpu.h"

#include <algorithm>

namespace plimsoll {
namespace {

template <typename Enum>
struct Named {
  Enum value;
  std::string_view name;
};

constexpr std::array<Named<Vendor>, 2> kVendors = {{{Vendor::kNvidia, "nvidia"}, {Vendor::kAmd, "amd"}}};
constexpr std::array<Named<LinkKind>, 6> kLinkKinds = {{{LinkKind::kNvlink, "nvlink"},
                                                        {LinkKind::kXgmi, "xgmi"},
                                                        {LinkKind::kPcie, "pcie"},
                                                        {LinkKind::kC2c, "c2c"},
                                                        {LinkKind::kInfiniband, "infiniband"},
                                                        {LinkKind::kEthernet, "ethernet"}}};
constexpr std::array<Named<Topology>, 3> kTopologies = {
    {{Topology::kSwitch, "switch"}, {Topology::kMesh, "mesh"}, {Topology::kBridge, "bridge"}}};
constexpr std::array<std::string_view, kArithmetics> kArithmeticNames = {"fp64", "fp32", "tf32", "fp16",
                                                                         "bf16", "fp8",  "fp4"};

template <typename Rows, typename Enum>
std::string_view name_in(const Rows& rows, Enum value) {
  for (const auto& row : rows)
    if (row.value == value) return row.name;
  return "?";
}

template <typename Enum, size_t n>
std::optional<Enum> value_in(const std::array<Named<Enum>, n>& rows, std::string_view name) {
  for (const auto& row : rows)
    if (row.name == name) return row.value;
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Vendor vendor) { return name_in(kVendors, vendor); }
std::string_view name_of(LinkKind kind) { return name_in(kLinkKinds, kind); }
std::string_view name_of(Topology topology) { return name_in(kTopologies, topology); }
std::string_view name_of(Arithmetic arithmetic) { return kArithmeticNames[static_cast<size_t>(arithmetic)]; }

std::optional<Vendor> vendor_from_name(std::string_view name) { return value_in(kVendors, name); }
std::optional<LinkKind> link_kind_from_name(std::string_view name) { return value_in(kLinkKinds, name); }
std::optional<Topology> topology_from_name(std::string_view name) { return value_in(kTopologies, name); }

std::optional<Arithmetic> arithmetic_of(DType dtype, bool tf32_allowed) {
  switch (dtype) {
    case DType::kFloat64:
      return Arithmetic::kFloat64;
    case DType::kFloat32:
      return tf32_allowed ? Arithmetic::kTf32 : Arithmetic::kFloat32;
    case DType::kFloat16:
      return Arithmetic::kFloat16;
    case DType::kBFloat16:
      return Arithmetic::kBFloat16;
    case DType::kFloat8:
      return Arithmetic::kFloat8;
    default:
      return std::nullopt;
  }
}

const Fact* find_fact(const std::vector<Fact>& facts, std::string_view key) {
  const auto at = std::find_if(facts.begin(), facts.end(), [&](const Fact& fact) { return fact.key == key; });
  return at == facts.end() ? nullptr : &*at;
}

}  // namespace plimsoll
