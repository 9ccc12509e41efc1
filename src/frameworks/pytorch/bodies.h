// Whole models: one function per body of Transformers' modelling code, composed of modules.h.
#pragma once

#include "frameworks/pytorch/modules.h"

namespace plimsoll::pytorch {

struct ModelInputs {
  Value ids, labels, mask;  // int64 [b, s]; mask may be undefined
};
struct ModelOutput {
  Value loss, logits;
};

// model.cc: the body that the family names, as one region.
ModelOutput write_model(Eager& e, const Family& family, const ResolvedJob& job, const ModelInputs& inputs);

// A module's call as a region to which strategies attach: begun and ended with its arguments and results.
class RegionScope {
 public:
  // Undefined tensors (None in Python) are left out.
  RegionScope(Eager& e, RegionKind kind, std::initializer_list<const Value*> arguments,
              std::initializer_list<const Value*> keywords = {});
  void end(std::initializer_list<const Value*> results);

 private:
  Eager& e_;
  RegionId id_;
};

// model.cc: how the <Family>ForCausalLM classes end: slice_logits_to_keep, lm_head, loss.
ModelOutput causal_lm_head(Eager& e, const Value& last_hidden, const ModelInputs& inputs);

// decoder.cc: Llama's body and those alike.
ModelOutput decoder_causal_lm(Eager& e, const Family& family, const ResolvedJob& job,
                              const ModelInputs& inputs);
// body_<family>.cc
ModelOutput gpt2_lm_head_model(Eager& e, const ResolvedJob& job, const ModelInputs& inputs);

}  // namespace plimsoll::pytorch
