// How the <Family>ForCausalLM classes end, in Transformers' own way or as TRL and Liger patch it.
#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {

Value finished_logits(const Architecture& a, const Family& family, Value logits) {
  if (family.logits_scaling == LogitsScaling::kMultiplied) logits = ops::mul(logits, a.logits_scale);
  if (family.logits_scaling == LogitsScaling::kDivided) logits = ops::div(logits, 1 / a.logits_scale);
  if (!a.final_softcap) return logits;
  logits = ops::div(logits, *a.final_softcap);
  logits = ops::tanh(logits);
  return ops::mul(logits, *a.final_softcap);
}

namespace {

ModelOutput full_logits(Eager& e, const Family& family, const Value& last_hidden, const ModelInputs& inputs) {
  const Value hidden = ops::slice_or_alias(last_hidden, 1, 0, last_hidden.size(1));
  RegionScope region(e, RegionKind::kHead, {&hidden});
  Value logits = e.linear("lm_head", hidden);
  region.end({&logits});
  mark_as_logits(logits);
  const With<Category> category(e.recorder().category, Category::kLogits);
  logits = finished_logits(e.architecture(), family, std::move(logits));
  Value loss = causal_lm_loss(e, logits, inputs.labels);
  return {.loss = std::move(loss), .logits = std::move(logits), .cache = {}, .counts = {}};
}

}  // namespace

ModelOutput causal_lm_head(Eager& e, const Family& family, const Value& last_hidden,
                           const ModelInputs& inputs) {
  if (inputs.loss.kind == LossKind::kChunked) return chunked_causal_lm_head(e, family, last_hidden, inputs);
  // skip_logits: Liger makes none while training.
  if (inputs.loss.kind == LossKind::kFusedLinear && e.is_training())
    return {.loss = fused_linear_causal_lm_loss(e, last_hidden, inputs.labels),
            .logits = {},
            .cache = {},
            .counts = {}};
  return full_logits(e, family, last_hidden, inputs);
}

ModelOutput causal_lm_head(Eager& e, const Value& last_hidden, const ModelInputs& inputs) {
  return causal_lm_head(e, Family{}, last_hidden, inputs);
}

}  // namespace plimsoll::pytorch
