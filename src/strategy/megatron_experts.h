// What a Megatron-LM job chooses of its mixtures of experts beyond their shapes (Moe of
// model/architecture.h): what is made, sent and kept on the way of a token to its experts and back.
//
// Names and defaults follow megatron/core/transformer/transformer_config.py.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll {

// kFlex: DeepEP's kernels.
enum class MegatronDispatcher { kAllGather, kAllToAll, kFlex };
enum class MegatronRouting { kTopk, kSinkhorn };
enum class MegatronScores { kSoftmax, kSigmoid };

struct MegatronExperts {
  MegatronDispatcher dispatcher = MegatronDispatcher::kAllGather;
  int64_t expert_ranks = 1;             // --expert-model-parallel-size
  std::optional<int64_t> tensor_ranks;  // --expert-tensor-parallel-size; empty: as the rest of the model
  bool has_grouped_gemm = false;
  bool fuses_permutation = false;

  MegatronRouting routing = MegatronRouting::kTopk;
  MegatronScores scores = MegatronScores::kSoftmax;
  bool routes_in_float32 = false;       // --moe-router-dtype fp32
  bool normalises_before_topk = false;  // --moe-router-pre-softmax
  bool scales_top_scores = false;       // --moe-router-topk-scaling-factor
  bool has_auxiliary_loss = false;      // of the micro-batch
  bool has_sequence_auxiliary_loss = false;
  bool has_z_loss = false;
  std::optional<double> capacity_factor;  // empty: no token is dropped
  bool pads_to_capacity = false;
  bool overlaps_shared_experts = false;
  double load = 1;  // resolved: rows that the traced rank gets, over an even share

  bool operator==(const MegatronExperts&) const = default;
};

}  // namespace plimsoll
