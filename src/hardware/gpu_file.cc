#include "hardware/gpu_file.h"

#include <fmt/format.h>

#include "hardware/fact_reader.h"

namespace plimsoll {
namespace {

// Slips of the pen lie outside, any real part of ours or the next generations' inside.
constexpr Range kMemoryGib{1, 4096};
constexpr Range kContextMib{32, 8192};
constexpr Range kWorkspaceBytes{0, 1LL << 30};
constexpr Range kMemoryRate{50, 100'000};  // GB/s
constexpr Range kLinkRate{1, 10'000};      // GB/s
constexpr Range kPeakRate{0.1, 100'000};   // TFLOP/s
constexpr Range kMultiprocessors{1, 4096};
constexpr Range kDomainGpus{2, 4096};
constexpr Range kPcieGeneration{1, 8};
constexpr Range kPcieLanes{1, 32};

void read_identity(FactReader& in, Gpu& gpu) {
  gpu.name = in.required_text("name");
  gpu.title = in.required_text("title");
  gpu.aliases = in.texts("aliases");
  gpu.device_names = in.texts("device_names");
  gpu.vendor = in.required_word("vendor", vendor_from_name, "nvidia or amd");
  gpu.architecture = in.required_text("architecture");
  gpu.default_cluster = in.optional_text("default_cluster");
}

void read_memory(FactReader& in, Gpu& gpu) {
  gpu.nominal_memory = in.required<Bytes>("memory.nominal_gib", kMemoryGib);
  gpu.usable_memory = in.required<Bytes>("memory.usable_gib", kMemoryGib);
  gpu.most_usable_memory = in.optional<Bytes>("memory.most_usable_gib", kMemoryGib);
  gpu.memory_bandwidth = in.required<BytesPerSecond>("memory.bandwidth_gb_per_s", kMemoryRate);
  gpu.context = in.required<Bytes>("memory.context_mib", kContextMib);
  gpu.cublas_workspace = in.required<Bytes>("memory.cublas_workspace_bytes", kWorkspaceBytes);
  if (gpu.usable_memory > gpu.nominal_memory)
    in.refuse("memory.usable_gib.value", "is more than the nominal memory",
              fmt::format("at most {}", to_gib_text(gpu.nominal_memory)));
  if (gpu.most_usable_memory && *gpu.most_usable_memory > gpu.nominal_memory)
    in.refuse("memory.most_usable_gib.value", "is more than the nominal memory",
              fmt::format("at most {}", to_gib_text(gpu.nominal_memory)));
  if (gpu.most_usable_memory && *gpu.most_usable_memory < gpu.usable_memory)
    in.refuse("memory.most_usable_gib.value", "is less than usable_gib", "the largest total seen");
  if (gpu.context >= gpu.usable_memory)
    in.refuse("memory.context_mib.value", "leaves nothing of the usable memory", "less than usable_gib");
}

void read_compute(FactReader& in, Gpu& gpu) {
  gpu.multiprocessors = in.required_count("compute.multiprocessors", kMultiprocessors);
  for (size_t i = 0; i < kArithmetics; ++i) {
    const std::string_view name = name_of(static_cast<Arithmetic>(i));
    const std::string measured = fmt::format("compute.measured_{}_tflop_per_s", name);
    gpu.peak_rates[i] = in.optional<FlopsPerSecond>(fmt::format("compute.{}_tflop_per_s", name), kPeakRate);
    gpu.measured_rates[i] = in.optional<FlopsPerSecond>(measured, kPeakRate);
    if (gpu.measured_rates[i] > gpu.peak_rates[i])
      in.refuse(measured + ".value", "is more than the peak", fmt::format("at most {}_tflop_per_s", name));
  }
  for (const Arithmetic needed : {Arithmetic::kFloat32, Arithmetic::kFloat16})
    if (!gpu.peak(needed))
      in.refuse(fmt::format("compute.{}_tflop_per_s", name_of(needed)), "is missing", "a number in TFLOP/s");
}

Link read_link(FactReader& in, const std::string& section, LinkKind kind) {
  Link link{.kind = kind};
  link.nominal = in.required<BytesPerSecond>(section + ".nominal_gb_per_s", kLinkRate);
  link.usable = in.optional<BytesPerSecond>(section + ".usable_gb_per_s", kLinkRate);
  if (link.usable && *link.usable > link.nominal)
    in.refuse(section + ".usable_gb_per_s.value", "is more than the wire carries",
              "at most nominal_gb_per_s");
  return link;
}

ScaleUp read_scale_up(FactReader& in) {
  const LinkKind kind = in.required_word("scale_up.kind", link_kind_from_name, "nvlink or xgmi");
  if (kind != LinkKind::kNvlink && kind != LinkKind::kXgmi)
    in.refuse("scale_up.kind", "is no link between GPUs", "nvlink or xgmi");
  ScaleUp scale_up{.link = read_link(in, "scale_up", kind)};
  scale_up.topology = in.required_word("scale_up.topology", topology_from_name, "switch, mesh or bridge");
  scale_up.domain_gpus = in.required_count("scale_up.domain_gpus", kDomainGpus);
  return scale_up;
}

void read_links(FactReader& in, Gpu& gpu) {
  gpu.host.pcie_generation = in.required_count("pcie.generation", kPcieGeneration);
  gpu.host.pcie_lanes = in.required_count("pcie.lanes", kPcieLanes);
  gpu.host.pcie = read_link(in, "pcie", LinkKind::kPcie);
  if (in.has_section("chip_to_chip")) gpu.host.chip_to_chip = read_link(in, "chip_to_chip", LinkKind::kC2c);
  if (in.has_section("scale_up")) gpu.scale_up = read_scale_up(in);
}

Result<Gpu> gpu_of(TomlDocument document) {
  FactReader in(std::move(document));
  Gpu gpu{.file = in.file()};
  read_identity(in, gpu);
  read_memory(in, gpu);
  read_compute(in, gpu);
  read_links(in, gpu);
  PLIMSOLL_CHECK(in.finish());
  gpu.facts = in.facts();
  return gpu;
}

}  // namespace

Result<Gpu> parse_gpu(std::string_view text, std::string file) {
  PLIMSOLL_TRY(document, parse_toml(text, std::move(file)));
  return gpu_of(std::move(document));
}

Result<Gpu> read_gpu(const std::filesystem::path& path) {
  PLIMSOLL_TRY(document, read_toml(path));
  return gpu_of(std::move(document));
}

}  // namespace plimsoll
