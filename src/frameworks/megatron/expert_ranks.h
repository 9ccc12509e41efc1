// The ranks over which experts are divided, and over which what all ranks hold of them is.
//
//   world = expert tensor x expert x expert data x pipeline
//
// Source: megatron/core/parallel_state.py (expert_decoder_rank_generator).
#pragma once

#include "strategy/job.h"

namespace plimsoll::megatron {

inline int64_t expert_tensor_ranks(const ResolvedJob& job) {
  return job.megatron->experts.tensor_ranks.value_or(job.mesh.tensor);
}
// Otherwise experts' parameters are like all others: in the same buffers and of the same optimizer. Source:
// use_expert_pgs of tensor_parallel/layers.py and extensions/transformer_engine.py.
inline bool have_experts_own_groups(const ResolvedJob& job) {
  return job.megatron->experts.expert_ranks > 1 || expert_tensor_ranks(job) != job.mesh.tensor;
}
// Of parameters: those of experts have a group of their own.
inline int64_t data_ranks(const ResolvedJob& job, bool is_expert) {
  if (!is_expert) return job.mesh.data * job.mesh.context;
  return job.mesh.world / (expert_tensor_ranks(job) * job.megatron->experts.expert_ranks * job.mesh.pipeline);
}

}  // namespace plimsoll::megatron
