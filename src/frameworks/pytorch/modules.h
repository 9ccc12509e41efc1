// The parts that Transformers' decoders are composed of, one function per module or helper function of the
// Python code. Each names the code it mirrors. Families choose among the variants in families.h.
#pragma once

#include "frameworks/pytorch/eager.h"
#include "frameworks/pytorch/families.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

// norms.cc: the module `name` below the current path on x [.., dim].
Value norm(Eager& e, const Family& family, std::string_view name, const Value& x);
Value norm_without_weight(Eager& e, const Value& x);  // x * rsqrt(mean(x^2)) in fp32, back in x's dtype
Value norm_of_each_head(Eager& e, std::string_view name, const Value& x);  // on x [b, heads, s, head_dim]

// rotary.cc
struct Rotary {
  Value cos, sin;  // [1 or b, s, rotary_dim] in the dtype of the hidden states (Olmo: fp32)
  Value complex;   // instead of them for RotaryVariant::kComplex: complex64 [1, s, rotary_dim / 2]
};
// <Family>RotaryEmbedding.forward; positions [1, s] int64. `layer_type`: whose frequencies, empty when all
// layers have the same.
Rotary rotary_embedding(Eager& e, const Family& family, std::string_view name, const Value& hidden,
                        const Value& positions, int64_t rotary_dim, std::string_view layer_type = "");
// apply_rotary_pos_emb; q and k are replaced. Returns what stays in scope in the attention's forward.
std::vector<Value> apply_rotary(Eager& e, const Family& family, Value& q, Value& k, const Rotary& rotary);
Value rotate_half(Eager& e, const Value& x);  // Llama's: cat((-x2, x1))
// x * cos + rotate_half(x) * sin, halves
Value rotated(Eager& e, const Value& x, const Value& cos, const Value& sin);

// paired_rotary.cc: apply_rotary_pos_emb_interleave (DeepSeek-V3), and GptOss' apply_rotary_pos_emb.
void apply_interleaved_rotary(Eager& e, Value& q, Value& k, const Rotary& rotary);
void apply_half_table_rotary(Eager& e, Value& q, Value& k, const Rotary& rotary);
// complex_rotary.cc: <Family>RotaryEmbedding.forward at the current path, and apply_rotary_emb on
// [b, heads, s, d] (DeepSeek-V2) or [b, s, heads, d] (Llama 4).
Rotary complex_rotary_embedding(Eager& e, const Value& positions, int64_t rotary_dim);
void apply_complex_rotary(Value& q, Value& k, const Rotary& rotary, bool has_heads_first);

// masks.cc
// masking_utils.create_causal_mask; undefined where it returns None (sdpa's is_causal is used instead).
// Positions are undefined where the model doesn't pass them.
Value causal_mask(Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& given_mask,
                  const Value& positions, std::optional<int64_t> window, bool may_be_skipped = true);
// masking_utils.create_bidirectional_mask and create_bidirectional_sliding_window_mask; undefined: nothing is
// masked.
Value bidirectional_mask(Eager& e, const ResolvedJob& job, const Value& embeddings, const Value& given_mask,
                         std::optional<int64_t> window);
// The masks of a decoder's layers, as the family makes them.
struct Masks {
  Value full, local;  // of layers that see all, and of those with a window or chunks
};
inline bool is_local(const Attention& a) { return a.window || a.chunk; }
Masks decoder_masks(Eager& e, const Family& family, const ResolvedJob& job, const Value& embeddings,
                    const Value& given_mask, const Value& positions);
// Whether the model keeps keys and values (use_cache).
bool has_cache(const Eager& e, const ResolvedJob& job);
// attention.cc: DynamicLayer.update of an empty cache: joins keys and values [b, kv heads, s, d] with
// nothing, which copies them, and keeps them. nullptr: no cache, nothing happens.
void update_cache(std::vector<Value>* cache, Value& k, Value& v);

// attention.cc: ALL_ATTENTION_FUNCTIONS on q [b, heads, s, d], k and v [b, kv heads, s, d].
struct AttentionCall {
  AttentionImplementation implementation = AttentionImplementation::kSdpa;
  SdpaBackend backend = SdpaBackend::kAutomatic;
  bool is_causal = true;
  double dropout = 0;
  std::optional<double> softcap;     // of the scores; eager only
  bool widens_softmax = true;        // to fp32; eager only
  const Value* positions = nullptr;  // that modelling code passes on, int64 [1, s]; flash_attention_2 only
};
struct Attended {
  Value output;   // [b, s, heads, d]
  Value weights;  // [b, heads, s, s]: modelling code returns them too; undefined with sdpa
};
Attended attention_interface(Eager& e, const AttentionCall& call, const Value& q, const Value& k,
                             const Value& v, const Value& mask);
// flash_attention.cc
Attended flash_attention_2(Eager& e, const AttentionCall& call, const Value& q, const Value& k,
                           const Value& v);
// The same where nobody holds the weights.
inline Value attention_core(Eager& e, const AttentionCall& call, const Value& q, const Value& k,
                            const Value& v, const Value& mask) {
  return attention_interface(e, call, q, k, v, mask).output;
}
// sinks.cc: eager attention with the parameter "sinks" at the current path.
Attended attention_with_sinks(Eager& e, const AttentionCall& call, const Value& q, const Value& k,
                              const Value& v, const Value& mask);
Value repeat_kv(Value x, int64_t times);

// activations.cc: the activation module `name` below the current path.
Value activation(Eager& e, std::string_view name, Activation kind, const Value& x);

// mlp.cc
Value mlp(Eager& e, const Family& family, const Mlp& mlp, std::string_view name, const Value& x);

// moe.cc: the block of experts on x [b, s, hidden].
struct MixtureResult {
  Value output;   // [b, s, hidden], or [b * s, hidden] (Llama 4)
  Value routing;  // the router's weights (GptOss) or logits (Llama 4), where the block returns them
};
MixtureResult mixture(Eager& e, const Family& family, ExpertsImplementation implementation, const Moe& moe,
                      std::string_view name, const Value& x);

// routers.cc: the module at the current path on [tokens, hidden].
struct Routing {
  Value logits;   // [tokens, experts]
  Value weights;  // [tokens, experts per token]; of all experts (Llama 4)
  Value indices;  // int64, as weights
};
// `correction`: what MiniMax' block adds to the scores.
Routing route(Eager& e, MixtureVariant variant, const Moe& moe, const Value& hidden, const Value& correction);

// experts.cc: the module "experts" on [tokens, hidden] with the router's choice, [tokens, experts per token].
Value grouped_experts(Eager& e, MixtureVariant variant, const Moe& moe, const Value& hidden,
                      const Value& indices, const Value& weights);
// The same with a copy of its expert's weights for every pair.
Value batched_experts(Eager& e, MixtureVariant variant, const Moe& moe, const Value& hidden,
                      const Value& indices, const Value& weights);
// Llama 4's, on [experts * tokens, hidden].
Value spread_experts(Eager& e, const Moe& moe, const Value& hidden);

// loss.cc: ForCausalLMLoss, and CrossEntropyLoss of unshifted labels in the logits' dtype; logits [b, s,
// vocab], labels [b, s] int64. A scalar.
Value causal_lm_loss(Eager& e, const Value& logits, const Value& labels);
Value masked_lm_loss(Eager& e, const Value& logits, const Value& labels);

}  // namespace plimsoll::pytorch
