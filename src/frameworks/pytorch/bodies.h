// Whole models: one function per body of Transformers' modelling code, composed of modules.h.
#pragma once

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

struct ModelInputs {
  Value ids, labels, mask;  // int64 [b, s]; mask may be undefined
  Loss loss;                // how causal language models compute it
};
struct ModelOutput {
  Value loss, logits;
  std::vector<Value> cache;   // keys and values of all layers, where the model keeps them
  std::vector<Value> counts;  // what a chunked loss returns besides the loss
};

// model.cc: the body that the family names, as one region.
ModelOutput write_model(Eager& e, const Family& family, const ResolvedJob& job, const ModelInputs& inputs);

// A module's call as a region to which strategies attach: begun and ended with its arguments and results.
class RegionScope {
 public:
  // Undefined tensors (None in Python) are left out.
  RegionScope(Eager& e, RegionKind kind, std::initializer_list<const Value*> arguments,
              std::initializer_list<const Value*> keywords = {});
  void checkpoint(Checkpoint kind);  // the call is one checkpoint, whatever the job recomputes
  void end(std::initializer_list<const Value*> results);

 private:
  Eager& e_;
  RegionId id_;
};

// The head's output counts as logits from here on, and so does its gradient.
void mark_as_logits(const Value& logits);
// causal_lm_head.cc: how the <Family>ForCausalLM classes end: slice_logits_to_keep, lm_head, the family's
// scaling and soft cap, loss.
ModelOutput causal_lm_head(Eager& e, const Family& family, const Value& last_hidden,
                           const ModelInputs& inputs);
ModelOutput causal_lm_head(Eager& e, const Value& last_hidden, const ModelInputs& inputs);

// What <Family>ForCausalLM does to the logits.
Value finished_logits(const Architecture& a, const Family& family, Value logits);
// loss_chunked.cc
ModelOutput chunked_causal_lm_head(Eager& e, const Family& family, const Value& last_hidden,
                                   const ModelInputs& inputs);
// loss_fused_linear.cc: a scalar.
Value fused_linear_causal_lm_loss(Eager& e, const Value& last_hidden, const Value& labels);

// eager_attention.cc: the attention interface on q, k, v [b, heads, s, d]; output [b, s, heads, d].
enum class EagerSoftmax {
  kFloat32,         // softmax(dtype=float32).to(query.dtype): gpt_neox, opt
  kThenValueDtype,  // softmax().type(value.dtype): gpt2
  kPlain            // softmax(): bert
};
// eager_attention_forward up to its transpose(1, 2).
Attended eager_attention(Eager& e, EagerSoftmax softmax, double dropout, const Value& q, const Value& k,
                         const Value& v, const Value& mask);
// ALL_ATTENTION_FUNCTIONS' choice of the job, with the architecture's dropout.
Attended attend(Eager& e, const ResolvedJob& job, EagerSoftmax softmax, bool is_causal, const Value& q,
                const Value& k, const Value& v, const Value& mask);

// alibi.cc: a slope for each head, fp32 [heads]; heads beyond a power of two get slopes of their own, joined.
struct AlibiSlopes {
  Value slopes;
  std::vector<Value> locals;  // in scope where they are computed
};
AlibiSlopes alibi_slopes(Recorder& r, int64_t heads);

// decoder.cc: Llama's body and those alike.
ModelOutput decoder_causal_lm(Eager& e, const Family& family, const ResolvedJob& job,
                              const ModelInputs& inputs);
// body_<family>.cc
ModelOutput bert_masked_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);  // and roberta
ModelOutput bloom_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);
ModelOutput falcon_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);
ModelOutput gptj_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);
ModelOutput gpt_neox_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);
ModelOutput modernbert_masked_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);
ModelOutput opt_causal_lm(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);
ModelOutput gpt2_lm_head_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);

}  // namespace plimsoll::pytorch
