// One kind of GPU: how much memory a process can really have on it, and how fast it computes and moves bytes.
// A value type; the catalog (hardware/catalog.h) reads it from data/gpus/<name>.toml or from a user's own
// file.
//
//   Result<Gpu> gpu = find_gpu("h100-80gb");
//   Bytes room = gpu->usable_memory - gpu->context;
//   std::optional<FlopsPerSecond> rate = gpu->peak(Arithmetic::kBFloat16);
//
// Invariant: 0 < context < usable_memory <= nominal_memory; every rate is positive, none measured above its
// peak. Does not model: clocks under load (a peak rate is the data sheet's, at boost clock), MIG slices, ECC
// toggling. A module of two dies that the driver shows as two devices (MI250X) is one Gpu per device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/units.h"
#include "hardware/fact.h"
#include "hardware/link.h"
#include "hardware/rates.h"

namespace plimsoll {

enum class Vendor { kNvidia, kAmd };

std::string_view name_of(Vendor vendor);  // "nvidia", "amd"
std::optional<Vendor> vendor_from_name(std::string_view name);

// The kinds of multiplication a peak rate is published for. kFloat32 is the vector units' (no TF32), all
// others the matrix units', dense, summed in fp32 where the part can: training needs that, and GeForce halves
// it.
enum class Arithmetic { kFloat64, kFloat32, kTf32, kFloat16, kBFloat16, kFloat8, kFloat4 };
inline constexpr size_t kArithmetics = 7;

std::string_view name_of(Arithmetic arithmetic);  // "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4"

// That of a matrix product of operands of this dtype; fp32 ones take TF32 only when the user allows it.
std::optional<Arithmetic> arithmetic_of(DType dtype, bool tf32_allowed);

// The wires to the host. On some parts (GB200) PCIe carries only the network and `chip_to_chip` the host
// copies.
struct HostLinks {
  int64_t pcie_generation = 0;
  int64_t pcie_lanes = 0;
  Link pcie;
  std::optional<Link> chip_to_chip;

  const Link& for_copies() const { return chip_to_chip ? *chip_to_chip : pcie; }
};

struct Gpu {
  std::string name;                       // "h100-80gb"
  std::string title;                      // "NVIDIA H100 80GB HBM3 (SXM5)"
  std::vector<std::string> aliases;       // other names a user may write
  std::vector<std::string> device_names;  // as the driver reports it
  Vendor vendor = Vendor::kNvidia;
  std::string architecture;                    // "sm_90", "gfx942": what kernels are compiled for
  std::optional<std::string> default_cluster;  // data/clusters/<this>.toml: assumed when the user names none

  Bytes nominal_memory;  // as marketed, read as GiB
  Bytes usable_memory;   // cudaMemGetInfo's total, "total capacity" in an OOM message; the least seen
  std::optional<Bytes> most_usable_memory;  // where drivers differ: the most seen
  BytesPerSecond memory_bandwidth;
  Bytes context;           // CUDA or HIP context of a process, modules loaded lazily; without communicators
  Bytes cublas_workspace;  // per (handle, stream), PyTorch's default, inside its caching allocator

  int64_t multiprocessors = 0;                                         // SMs or CUs
  std::array<std::optional<FlopsPerSecond>, kArithmetics> peak_rates;  // of the data sheet
  std::array<std::optional<FlopsPerSecond>, kArithmetics>
      measured_rates;  // of the best large matrix product seen

  std::optional<ScaleUp> scale_up;
  HostLinks host;

  std::string file;         // it was read from
  std::vector<Fact> facts;  // of every number above, in the file's order

  // Empty: the part has no unit for it.
  std::optional<FlopsPerSecond> peak(Arithmetic arithmetic) const {
    return peak_rates[static_cast<size_t>(arithmetic)];
  }
  // Empty: nobody has published a measurement. At most the peak.
  std::optional<FlopsPerSecond> measured(Arithmetic arithmetic) const {
    return measured_rates[static_cast<size_t>(arithmetic)];
  }
};

}  // namespace plimsoll
