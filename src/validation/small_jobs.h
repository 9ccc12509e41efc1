// For tests: jobs on a small llama whose sizes are numbers of the test, and what simulating them shows.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

#include "allocator/lower_bound_heap.h"
#include "frameworks/pytorch/training.h"
#include "importers/hf_config/hf_config.h"
#include "program/verify.h"
#include "simulator/simulator.h"
#include "strategy/resolve.h"

namespace plimsoll {

struct SmallLlama {
  int64_t vocab = 512, hidden = 512, intermediate = 1024, layers = 2, heads = 8, kv_heads = 2, head_dim = 64;
};

inline Architecture architecture_of(const SmallLlama& n) {
  const std::string text = fmt::format(
      R"({{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": {}, "hidden_size": {},
"intermediate_size": {}, "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},
"head_dim": {}, "max_position_embeddings": 8192, "hidden_act": "silu", "rms_norm_eps": 1e-05,
"tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": false}})",
      n.vocab, n.hidden, n.intermediate, n.layers, n.heads, n.kv_heads, n.head_dim);
  Result<Architecture> architecture = read_hf_config_text(text, "small.json");
  if (!architecture) throw std::invalid_argument(architecture.error().to_text());
  return *std::move(architecture);
}

// A run of a job, every pass of it verified; an error when the job contradicts itself.
inline Result<Program> build(const Architecture& architecture, const Job& job) {
  PLIMSOLL_TRY(resolved,
               resolve(job, architecture, {.name = "any", .gpus_per_node = 8, .compute_capability = 90}));
  PassList passes({.verifies = true,
                   .verify = {.may_keep_outputs = job.loop.hold_outputs,
                              .may_keep_gradients = job.loop.zero_grad != ZeroGrad::kSetToNone ||
                                                    job.ddp.gradient_as_bucket_view}});
  return pytorch::build_training(architecture, resolved, {.passes = &passes});
}

// A run of it in bf16, one GPU, AdamW, sequences of 256; `change` sets what a test is about.
inline Program program_of(const SmallLlama& model, const std::function<void(Job&)>& change = {}) {
  const Architecture architecture = architecture_of(model);
  Job job;
  job.precision = Precision::kBFloat16;
  job.batch.sequence = 256;
  if (change) change(job);
  Result<Program> program = build(architecture, job);
  if (!program) throw std::invalid_argument(program.error().to_text());
  return *std::move(program);
}

inline MemoryTimeline play(const Program& program) {
  LowerBoundHeap heap;
  return simulate(program, heap, {.keeps_events = true, .workspaces_in_heap = false});
}

inline const PhaseMemory& phase_of(const MemoryTimeline& timeline, std::string_view name) {
  for (const PhaseMemory& p : timeline.phases)
    if (p.phase == name) return p;
  throw std::invalid_argument("no such phase");
}

// The highest sum of the storages that `counts` chooses, during a phase.
inline Bytes peak_of(const Program& program, const MemoryTimeline& timeline, std::string_view phase,
                     const std::function<bool(const Storage&)>& counts) {
  Bytes now, peak;
  for (const MemoryEvent& e : timeline.events) {
    const Storage& s = program.storage(e.storage);
    if (counts(s)) now += e.is_alloc ? s.bytes : Bytes{} - s.bytes;
    if (timeline.phases[e.phase].phase == phase) peak = std::max(peak, now);
  }
  return peak;
}

}  // namespace plimsoll
