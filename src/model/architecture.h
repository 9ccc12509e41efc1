// What a model is made of, apart from any framework: its layers' shapes and every parameter tensor by name. A
// family (model/families/<family>.cc) fills it from a configuration; a framework (frameworks/<name>/) expands
// it into ops.
//
// Invariant: `parameters` lists the tensors in the order in which the reference implementation (Hugging Face
// Transformers) registers them (state_dict order), tied ones included once under their first name with
// `tied_names` beside it.
//
//   Result<Architecture> a = read_hf_config("config.json");  // importers/hf_config
//   a->parameter_count();                                    // 8,030,261,248 for llama-3.1-8b
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/units.h"

namespace plimsoll {

enum class Activation { kSilu, kGelu, kGeluTanh, kGeluNew, kRelu, kQuickGelu, kTanh, kGeluFast, kGeluBloom };
std::string_view name_of(Activation activation);  // Transformers' "silu", "gelu_new"
enum class NormKind { kLayerNorm, kRmsNorm };

// Logical dims, to which mesh axes are mapped (design: partitioning speaks of dims, not of layer types).
enum class Dim { kNone, kHidden, kHeads, kKvHeads, kHeadDim, kFfn, kVocab, kExperts, kPosition, kLowRank };

struct Norm {
  NormKind kind = NormKind::kRmsNorm;
  bool has_bias = false;   // LayerNorm's beta
  bool has_weight = true;  // false: no affine parameters
};

// Multi-head latent attention (DeepSeek-V2 and after): low-rank projections of queries and of keys and
// values.
struct LatentAttention {
  std::optional<int64_t> query_rank;  // empty: queries are projected directly
  int64_t kv_rank = 0;
  int64_t nope_head_dim = 0;         // part of the query/key head without position
  int64_t rope_head_dim = 0;         // part with rotary position, the key's shared by all heads
  bool is_rope_interleaved = false;  // pairs of neighbours are rotated, not halves
};

enum class HeadNorm { kNone, kPerHead, kWholeProjection, kWithoutWeight };  // norm on queries and keys

struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;        // of queries and keys
  int64_t value_head_dim = 0;  // of values; equal to head_dim but for latent attention
  bool is_causal = true;
  std::optional<int64_t> window;  // sliding window in tokens; empty: sees all
  std::optional<int64_t> chunk;   // attends within chunks of so many tokens (Llama 4)
  int64_t rotary_dim = 0;  // leading part of head_dim that is rotated; 0: no rotary position in this layer
  bool query_bias = false, key_bias = false, value_bias = false, output_bias = false;
  bool is_fused_qkv = false;       // one projection tensor for q, k and v
  bool is_fused_by_group = false;  // in it each group's queries are followed by its key and value (falcon's
                                   // new decoder), otherwise all queries come first
  HeadNorm head_norm = HeadNorm::kNone;
  std::optional<double> score_softcap;
  bool has_sinks = false;        // a learned logit per head (gpt_oss)
  bool has_temperature = false;  // queries are multiplied by a number that grows with the position (Llama 4)
  std::optional<LatentAttention> latent;
};

struct Mlp {
  int64_t intermediate = 0;
  bool is_gated = false;          // act(gate(x)) * up(x)
  bool is_fused_gate_up = false;  // gate and up in one tensor
  bool has_bias = false;
  Activation activation = Activation::kSilu;
};

struct Moe {
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_intermediate = 0;
  int64_t shared_intermediate = 0;  // width of the always-active part (all shared experts together); 0: none
  bool has_shared_bias = false;     // on the shared part's projections
  bool has_shared_gate = false;     // a sigmoid gate on the shared part (Qwen2-MoE)
  bool has_router_bias = false;     // router projection's bias (gpt_oss)
  bool has_score_correction_bias = false;  // a buffer per expert (DeepSeek-V3)
  bool has_expert_bias = false;
  bool is_gated = true;       // act(gate(x)) * up(x); false: two matrices an expert
  int64_t expert_groups = 1;  // group-limited routing
  int64_t groups_per_token = 1;
  bool is_group_limited = false;        // experts are chosen within the best groups (DeepSeek)
  bool has_normalised_weights = false;  // a token's weights are divided by their sum
  bool has_jitter = false;              // noise on the input while training (router_jitter_noise)
  bool has_balance_loss = false;        // the routers' logits are returned and enter the loss
  Activation activation = Activation::kSilu;
};

struct Layer {
  Attention attention;
  std::optional<Mlp> mlp;  // exactly one of mlp and moe
  std::optional<Moe> moe;
};

struct ParameterTensor {
  std::string name;                     // as in the checkpoint: "model.layers.0.self_attn.q_proj.weight"
  std::vector<int64_t> shape;           // elements per dimension
  std::vector<Dim> dims;                // one per dimension; empty when nothing is known of them
  std::optional<int> layer;             // index into Architecture::layers; empty outside the repeated blocks
  bool is_expert = false;               // routed: only experts_per_token of experts are active for a token
  bool is_float32 = false;              // made in fp32 whatever the model's dtype (DeepSeek's router)
  std::vector<std::string> tied_names;  // other names of the same storage

  int64_t elements() const;
};

// A tensor that is saved or held on the device without being trained (causal masks, rotary frequencies, score
// biases).
struct BufferTensor {
  std::string name;
  std::vector<int64_t> shape;    // empty: a scalar
  int64_t element_bytes = 4;     // in an fp32 model
  bool has_model_dtype = false;  // made in the model's dtype; otherwise always of element_bytes
  bool is_persistent = false;    // stored in a checkpoint
  bool is_complex = false;       // complex64, of 8 bytes

  int64_t elements() const;
};

// Scaled rotary positions; what a rope_type doesn't name is empty.
struct RopeScaling {
  std::optional<double> factor;
  std::optional<double> low_frequency_factor, high_frequency_factor;  // llama3
  std::optional<int64_t> original_max_position;                       // llama3
};

// What no byte depends on, but results do: who runs a model needs it.
struct Numerics {
  double norm_epsilon = 1e-6;
  double initializer_range = 0.02;      // standard deviation of fresh weights
  bool has_scaled_scores = true;        // false: attention scores aren't divided by sqrt(head_dim) (GPT-2)
  bool scales_scores_by_layer = false;  // they are divided by the layer's number too (GPT-2)
};

enum class PositionKind { kNone, kLearned, kRotary, kAlibi };
enum class Task { kCausalLm, kMaskedLm };

struct Architecture {
  std::string name;        // what the user called it: a preset's name or the file
  std::string family;      // model_type: "llama", "gpt2" ...
  std::string class_name;  // "LlamaForCausalLM"
  Task task = Task::kCausalLm;

  std::optional<DType> published_dtype;  // that the configuration names: fp32, bf16 or fp16

  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t max_position = 0;
  int64_t embedding_dim = 0;  // of the token embedding; equal to hidden but where a projection follows (opt)
  int64_t type_vocab = 0;     // bert's token types
  int64_t position_rows = 0;  // rows of the learned position table (opt: max_position + 2)
  PositionKind position = PositionKind::kRotary;
  bool is_tied = false;  // the head shares the embedding's storage

  Norm norm;                          // of every block
  bool is_parallel_residual = false;  // attention and MLP read the same input (gpt_neox, falcon, phi, cohere)
  bool has_two_parallel_norms = false;  // parallel residual with a norm of its own for each branch
  bool has_post_norms =
      false;  // norms on the branches' outputs besides the ones on their inputs (gemma2, gemma3)
  bool has_only_post_norms = false;  // norms on the outputs instead (olmo2, olmo3)
  bool is_norm_after_add = false;    // norms on the residual stream after each addition (bert, opt-350m)
  bool has_embedding_norm = false;   // bloom, bert
  bool has_final_norm = true;
  bool has_head_bias = false;
  bool use_cache = true;  // the configuration's: a model that isn't told otherwise keeps keys and values
  bool is_masked_lm_head_transformed = false;  // bert: dense, activation, norm before the decoder

  double embedding_dropout = 0, residual_dropout = 0, attention_dropout = 0, activation_dropout = 0;
  std::optional<double> final_softcap;  // gemma2
  double embedding_scale = 1, residual_scale = 1, logits_scale = 1,
         attention_scale = 0;  // 0: 1/sqrt(head_dim)
  double rope_theta = 10000;
  std::string rope_type =
      "default";  // "default", "linear", "llama3", "yarn", "longrope", "dynamic", "proportional"

  RopeScaling rope_scaling;
  Numerics numerics;  // read for the families that the native runtime trains

  std::vector<Layer> layers;
  std::vector<ParameterTensor> parameters;
  std::vector<BufferTensor> buffers;
  int64_t prediction_layers = 0;      // for multi-token prediction (DeepSeek-V3), not in `layers`
  int64_t prediction_parameters = 0;  // of those, not part of `parameters`; their embedding and head are the
                                      // main model's and not counted again

  std::vector<std::string> notes;  // what the reader had to leave out or assume

  int64_t parameter_count() const;         // elements, tied tensors once
  int64_t stored_count() const;            // elements in a checkpoint: parameters and persistent buffers
  int64_t active_parameter_count() const;  // elements that one token uses: experts by their share
};

}  // namespace plimsoll
