// What two devices are joined by, seen from one of them.
//
//   GPU <== link ==> GPU      scale-up: NVLink, xGMI; every GPU of the domain at this rate
//   GPU <== link ==> host     PCIe, or NVLink-C2C where the CPU is on the module
//   node <== link ==> node    one network adapter
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "hardware/rates.h"

namespace plimsoll {

enum class LinkKind { kNvlink, kXgmi, kPcie, kC2c, kInfiniband, kEthernet };

std::string_view name_of(LinkKind kind);  // "nvlink", "xgmi", "pcie", "c2c", "infiniband", "ethernet"
std::optional<LinkKind> link_kind_from_name(std::string_view name);

// Rates are per direction and for one device, all its lanes together: a data sheet's "900 GB/s NVLink" is
// 450.
struct Link {
  LinkKind kind = LinkKind::kPcie;
  BytesPerSecond nominal;                // of the wire
  std::optional<BytesPerSecond> usable;  // what large copies reach, where known; never above nominal

  BytesPerSecond best_known() const { return usable.value_or(nominal); }
};

// kSwitch: any pair at the full rate (NVSwitch). kMesh: each pair has its own link, so one pair gets
// 1 / (gpus - 1) of it (xGMI in an OAM board). kBridge: pairs of cards, no path beyond the pair.
enum class Topology { kSwitch, kMesh, kBridge };

std::string_view name_of(Topology topology);  // "switch", "mesh", "bridge"
std::optional<Topology> topology_from_name(std::string_view name);

// The GPUs that reach each other over `link` without the network or the host.
struct ScaleUp {
  Link link;
  Topology topology = Topology::kSwitch;
  int64_t domain_gpus = 1;  // in the usual system; 72 in an NVL72 rack, though its nodes hold 4
};

}  // namespace plimsoll
