#include "frameworks/pytorch/bodies.h"

namespace plimsoll::pytorch {

RegionScope::RegionScope(Eager& e, RegionKind kind, std::initializer_list<const Value*> arguments,
                         std::initializer_list<const Value*> keywords)
    : e_(e) {
  Program& program = e.recorder().program();
  Region region{.kind = kind, .module = e.recorder().module};
  for (const Value* a : arguments)
    if (a->is_defined()) region.arguments.push_back(a->id());
  for (const Value* k : keywords)
    if (k->is_defined()) region.keywords.push_back(k->id());
  program.regions.push_back(std::move(region));
  id_ = RegionId{static_cast<uint32_t>(program.regions.size() - 1)};
  e.recorder().begin(id_);
}

void RegionScope::checkpoint(Checkpoint kind) {
  e_.recorder().program().regions[id_.value].checkpoint = kind;
}

void RegionScope::end(std::initializer_list<const Value*> results) {
  Program& program = e_.recorder().program();
  std::vector<TensorId>& ids = program.regions[id_.value].results;
  for (const Value* r : results)
    if (r->is_defined()) ids.push_back(r->id());
  // The hook make_inputs_require_grads on the input embedding.
  if (program.regions[id_.value].kind == RegionKind::kEmbedding && e_.has_input_require_grads())
    for (const Value* r : results) e_.require_grad(*r);
  e_.recorder().end(id_);
}

void mark_as_logits(const Value& logits) {
  Program& program = logits.recorder().program();
  program.storages[logits.info().storage.value].category = Category::kLogits;
}

namespace {

ModelOutput write_body(Eager& e, const Family& family, const ResolvedJob& job, const ModelInputs& inputs) {
  switch (family.body) {
    case BodyVariant::kBert:
      return bert_masked_lm(e, job, inputs);
    case BodyVariant::kBloom:
      return bloom_causal_lm(e, job, inputs);
    case BodyVariant::kFalcon:
      return falcon_causal_lm(e, job, inputs);
    case BodyVariant::kGptJ:
      return gptj_causal_lm(e, job, inputs);
    case BodyVariant::kGptNeox:
      return gpt_neox_causal_lm(e, job, inputs);
    case BodyVariant::kModernBert:
      return modernbert_masked_lm(e, job, inputs);
    case BodyVariant::kOpt:
      return opt_causal_lm(e, job, inputs);
    case BodyVariant::kGpt2:
      return gpt2_lm_head_model(e, job, inputs);
    default:
      return decoder_causal_lm(e, family, job, inputs);
  }
}

}  // namespace

ModelOutput write_model(Eager& e, const Family& family, const ResolvedJob& job, const ModelInputs& inputs) {
  RegionScope region(e, RegionKind::kModel, {&inputs.ids, &inputs.labels});
  ModelOutput output = write_body(e, family, job, inputs);
  region.end({&output.loss, &output.logits});
  return output;
}

}  // namespace plimsoll::pytorch
