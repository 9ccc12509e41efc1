// The forward pass of the native runtime, written as a forward Program: fused norms, rotary positions and
// gated feed-forward in one op each, attention by ATen's kernel for CPUs, and a loss whose gradient
// overwrites the logits. Families: gpt2, llama, mistral, qwen2, qwen3 (strategy/native_checks.cc refuses the
// rest). Source of the mathematics: transformers/models/<family>/modeling_<family>.py, 5.24. Does not model:
// dropout (a note says so where the configuration has some), attention windows, caches.
#pragma once

#include <optional>
#include <vector>

#include "model/architecture.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::native {

struct Forward {
  Program program;
  TensorId ids, labels;              // int64 [micro_batch, sequence]; labels are the next tokens
  std::optional<TensorId> cos, sin;  // fp32 [sequence, rotary_dim / 2]
  TensorId loss;                     // fp32 scalar: this micro-batch's share of the global batch's mean
  std::vector<std::string> notes;
};

// REQUIRES a family that check_native accepts.
Forward record_forward(const Architecture& architecture, const ResolvedJob& job);

// 1 / tokens of the global batch: what a token's loss counts.
double loss_scale(const ResolvedJob& job);

}  // namespace plimsoll::native
