// What a Megatron-LM job chooses beyond the fields that all frameworks share: the options of its argument
// list that change what is allocated. importers/megatron reads them, frameworks/megatron plays them.
//
// Names and defaults follow megatron/training/arguments.py and megatron/core/transformer/
// transformer_config.py.
#pragma once

#include <cstdint>
#include <optional>

#include "strategy/megatron_experts.h"

namespace plimsoll {

// Whose modules a layer is built of (--transformer-impl).
enum class MegatronLayers { kLocal, kTransformerEngine };
// --attention-backend; kAutomatic: Transformer Engine's own choice.
enum class MegatronAttention { kAutomatic, kFlash, kFused, kUnfused, kLocal };
enum class MegatronPrecision { kFloat32, kFloat16, kBFloat16 };
enum class MegatronRecompute { kNone, kSelective, kFullUniform, kFullBlock };

struct MegatronSettings {
  MegatronLayers layers = MegatronLayers::kTransformerEngine;
  MegatronAttention attention = MegatronAttention::kAutomatic;
  MegatronPrecision precision = MegatronPrecision::kFloat32;
  int64_t vocab_divisor = 128;  // --make-vocab-size-divisible-by; times the tensor-parallel ranks

  bool has_sequence_parallel = false;  // over the tensor-parallel ranks, where there are several
  bool has_distributed_optimizer = false;
  int64_t optimizer_instances = 1;  // --num-distributed-optimizer-instances
  bool overlaps_grad_reduce = false;
  bool overlaps_param_gather = false;
  bool fuses_weight_gradients = true;  // of linears, into the gradient buffer
  bool is_deterministic = false;       // --deterministic-mode
  bool fuses_masked_softmax = true;
  bool fuses_bias_activation = true;
  bool fuses_bias_dropout = true;
  bool fuses_rope = true;
  bool is_rope_interleaved = false;  // --rotary-interleaved
  bool fuses_cross_entropy = false;
  bool has_persistent_layer_norm = true;
  bool has_transformer_engine = true;  // is installed: some modules of local layers are its own
  bool has_mask_in_dataloader = true;  // --create-attention-mask-in-dataloader
  bool scales_by_layer = false;        // --apply-query-key-layer-scaling: softmax in fp32
  bool logs_params_norm = false;
  bool counts_zeros = false;  // --log-num-zeros-in-grad
  double clip_gradients = 1.0;

  std::optional<int64_t> first_stage_layers, last_stage_layers;  // of an uneven pipeline
  int64_t virtual_stages = 1;                                    // model chunks a rank holds
  std::optional<int64_t> microbatch_group;                       // of the interleaved schedule
  bool receives_early = false;                                   // --overlap-p2p-communication-warmup-flush
  bool frees_pipeline_outputs = true;                            // deallocate_pipeline_outputs

  MegatronRecompute recompute = MegatronRecompute::kNone;
  int64_t recompute_layers = 1;  // layers a checkpoint, or layers recomputed on each stage (kFullBlock)

  MegatronExperts experts;  // of models with experts

  bool has_fixed_cublas_workspace = false;  // CUBLAS_WORKSPACE_CONFIG=:4096:8

  bool operator==(const MegatronSettings&) const = default;
};

}  // namespace plimsoll
