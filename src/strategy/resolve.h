// From what was written to what is run: fills every default in, as the framework would, and checks the whole.
//
//   Result<ResolvedJob> resolved = resolve(job, architecture, {.name = gpu.name, .gpus_per_node = 8});
//
// All contradictions are reported together, each with its factors ("global_batch 100 is not a multiple of
// micro_batch 3 x data-parallel ranks 8 = 24"). Nothing is changed silently: a default that was used is in
// `assumed`, an option without effect is a contradiction or, where it is harmless, a note.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"

namespace plimsoll {

// What the choices depend on of a GPU and its usual node.
struct GpuFacts {
  std::string name;
  int64_t gpus_per_node = 8;              // of the usual node
  std::optional<int> compute_capability;  // 90 for sm_90; empty: not CUDA, or unknown
  int64_t multiprocessors = 0;
};

std::optional<int> compute_capability_of(std::string_view architecture);  // "sm_90" -> 90; "gfx942" -> empty

Result<ResolvedJob> resolve(const Job& job, const Architecture& architecture, const GpuFacts& gpu);

// The parts of `resolve`. `with_defaults` never fails: where the job contradicts itself it holds something
// near.
ResolvedJob with_defaults(const Job& job, const Architecture& architecture, const GpuFacts& gpu);
std::vector<Error> contradictions(const Job& job, const ResolvedJob& resolved,
                                  const Architecture& architecture, const GpuFacts& gpu);

// The settings that take back values which mean nothing in the job as it is, and for which resolve() refuses
// it: "fsdp2.pin_memory=default" without CPU offload.
std::vector<std::string> resets_of_unused(const Job& job, const Architecture& architecture,
                                          const GpuFacts& gpu);

// The attention implementation that Transformers takes for a family when none is asked for, and whether a
// family has one. Source: _supports_sdpa, _supports_flash_attn of its modelling files, 5.24.
AttentionImplementation default_attention(std::string_view family);
bool has_attention(std::string_view family, AttentionImplementation implementation);

bool has_experts(const Architecture& architecture);

// Whether anything is known of its step. Of fused SGD it isn't: PyTorch has no shape function of it to check
// its memory against.
bool has_known_step(const Optimizer& optimizer);

// Of all parameters, on the rank with most: FSDP2 divides rows (dim 0), and where they don't divide the first
// ranks hold a row more.
int64_t held_elements(const Architecture& architecture, int64_t shards);

}  // namespace plimsoll
