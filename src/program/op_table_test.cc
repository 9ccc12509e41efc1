// Every kind with a backward rule, on one small example: what it keeps, and the byte law that each gradient
// has the shape and dtype of the input it is a gradient of. What is kept restates derivatives.yaml of PyTorch
// 2.13: an input or output that a formula names.
#include "program/op_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "program/differentiate_fixture.h"
#include "program/op_example.h"
#include "program/op_examples_megatron.h"
#include "program/op_examples_megatron_experts.h"

namespace plimsoll {
namespace {

std::vector<Example> view_examples() {
  const auto one = [](auto apply) { return [=](Inputs& in) { return apply(std::move(in[0])); }; };
  const auto attention_layout = [](Value x) { return ops::transpose(std::move(x), 1, 2); };
  return {
      {OpKind::kView, {wants({2, 3, 4})}, one([](Value x) {
         return ops::view(x, {6, 4});
       })},
      {OpKind::kUnsafeView, {wants({2, 3, 4})}, one([](Value x) {
         return ops::unsafe_view(x, SizeList{6, 4});
       })},
      {OpKind::kTranspose, {wants({2, 3, 4})}, one(attention_layout)},
      {OpKind::kPermute, {wants({2, 3, 4})}, one([](Value x) {
         return ops::permute(x, {2, 0, 1});
       })},
      {OpKind::kExpand, {wants({2, 1, 4})}, one([](Value x) {
         return ops::expand(x, {2, 3, 4});
       })},
      {OpKind::kSlice, {wants({2, 3, 4})}, one([](Value x) { return ops::slice(x, 1, 0, 2); })},
      {OpKind::kSelect, {wants({2, 3, 4})}, one([](Value x) { return ops::select(x, 1, 0); })},
      {OpKind::kUnsqueeze, {wants({2, 3})}, one([](Value x) { return ops::unsqueeze(x, 1); })},
      {OpKind::kSqueeze, {wants({2, 1, 3})}, one([](Value x) { return ops::squeeze(x, 1); })},
      {OpKind::kSplit, {wants({2, 8})}, one([](Value x) { return ops::chunk(x, 2, 1)[0]; })},
      {OpKind::kUnbind, {wants({2, 8})}, one([](Value x) { return ops::unbind(x, 0)[1]; })},
      {OpKind::kAlias, {wants({2, 8})}, one([](Value x) { return ops::slice_or_alias(x, 1, 0, 8); })},
      {OpKind::kClone, {wants({2, 8})}, one([](Value x) { return ops::clone(x); })},
      {OpKind::kCast, {wants({2, 8})}, one([](Value x) { return ops::cast(x, kFloat); })},
      {OpKind::kPad, {wants({2, 8})}, one([](Value x) { return ops::pad(x, 1, 2); })},
      {OpKind::kRepeat, {wants({2, 8})}, one([](Value x) {
         return ops::repeat(x, SizeList{3, 1, 2});
       })},
      {OpKind::kViewAsReal, {wants({2, 4}, DType::kComplex64)}, one([](Value x) {
         return ops::view_as_real(x);
       })},
      {OpKind::kViewAsComplex, {wants({2, 4, 2}, kFloat)}, one([](Value x) {
         return ops::view_as_complex(x);
       })},
      {OpKind::kCat, {wants({2, 3}), wants({2, 5})}, [](Inputs& in) { return ops::cat(std::move(in), 1); }},
      {OpKind::kCat,  // as of the heads of a model that norms each apart
       std::vector<TensorInfo>(100, wants({2, 3})), [](Inputs& in) { return ops::cat(std::move(in), 1); }},
      {OpKind::kStack,
       {wants({2, 3}), wants({2, 3})},
       [](Inputs& in) { return ops::stack(std::move(in), 1); }},
      {OpKind::kCopyIntoSlice,
       {wants({4, 8}), wants({4, 3})},
       [](Inputs& in) { return ops::copy_into_slice_(ops::clone(in[0]), std::move(in[1]), 1, 2); }},
  };
}

std::vector<Example> pointwise_examples() {
  const auto unary = [](OpKind kind) {
    return [=](Inputs& in) { return ops::unary(kind, std::move(in[0])); };
  };
  const auto scalar = [](OpKind kind) {
    return [=](Inputs& in) { return ops::with_scalar(kind, std::move(in[0]), 3); };
  };
  const auto binary = [](OpKind kind) {
    return [=](Inputs& in) { return ops::binary(kind, std::move(in[0]), std::move(in[1])); };
  };
  const std::vector<TensorInfo> one = {wants({4, 8})};
  const std::vector<TensorInfo> two = {wants({4, 8}), wants({8})};  // the second is broadcast
  return {
      {OpKind::kAdd, two, binary(OpKind::kAdd)},
      {OpKind::kSub, two, binary(OpKind::kSub)},
      {OpKind::kMul, two, binary(OpKind::kMul), {0, 1}},
      {OpKind::kDiv, two, binary(OpKind::kDiv), {0, 1}},
      {OpKind::kAddScalar, one, scalar(OpKind::kAddScalar)},
      {OpKind::kMulScalar, one, scalar(OpKind::kMulScalar)},
      {OpKind::kDivScalar, one, scalar(OpKind::kDivScalar)},
      {OpKind::kScale, one, scalar(OpKind::kScale)},
      {OpKind::kRsub, one, scalar(OpKind::kRsub)},
      {OpKind::kPow, one, scalar(OpKind::kPow), {0}},
      {OpKind::kNeg, one, unary(OpKind::kNeg)},
      {OpKind::kRsqrt, one, unary(OpKind::kRsqrt), {}, {0}},
      {OpKind::kSqrt, one, unary(OpKind::kSqrt), {}, {0}},
      {OpKind::kExp, one, unary(OpKind::kExp), {}, {0}},
      {OpKind::kReciprocal, one, unary(OpKind::kReciprocal), {}, {0}},
      {OpKind::kTanh, one, unary(OpKind::kTanh), {}, {0}},
      {OpKind::kSigmoid, one, unary(OpKind::kSigmoid), {}, {0}},
      {OpKind::kRelu, one, unary(OpKind::kRelu), {}, {0}},
      {OpKind::kSilu, one, unary(OpKind::kSilu), {0}},
      {OpKind::kGelu, one, unary(OpKind::kGelu), {0}},
      {OpKind::kClamp, one, unary(OpKind::kClamp), {0}},
      {OpKind::kClampBetween, one, unary(OpKind::kClampBetween), {0}},
      {OpKind::kDropout, one, [](Inputs& in) { return ops::dropout(std::move(in[0]), 0.1); }, {}, {1}},
      {OpKind::kWhere,
       {mask({4, 8}), wants({4, 8}), wants({8})},
       [](Inputs& in) { return ops::where(std::move(in[0]), std::move(in[1]), std::move(in[2])); },
       {0}},
      {OpKind::kMaskedFill,
       {wants({4, 8}), mask({8})},
       [](Inputs& in) { return ops::masked_fill(std::move(in[0]), std::move(in[1])); },
       {1}},
      {OpKind::kMaskedFillInPlace,
       {wants({4, 8}), mask({8})},
       [](Inputs& in) { return ops::masked_fill_(ops::clone(in[0]), std::move(in[1])); },
       {1}},
      {OpKind::kAddInPlace, two, [](Inputs& in) { return ops::add_(ops::clone(in[0]), std::move(in[1])); }},
      {OpKind::kMulInPlace, one, [](Inputs& in) { return ops::mul_(ops::clone(in[0]), 2); }},
      {OpKind::kDivInPlace,
       two,
       [](Inputs& in) { return ops::div_(ops::clone(in[0]), std::move(in[1])); },
       {1, 2}},
      {OpKind::kDivScalarInPlace, one, [](Inputs& in) { return ops::div_(ops::clone(in[0]), 2); }},
      {OpKind::kGeluFunction,
       {plain({4, 8}), wants({4, 8})},
       [](Inputs& in) { return ops::gelu_function(ops::clone(in[0]), std::move(in[1])); },
       {1}},
  };
}

std::vector<Example> reduction_examples() {
  const auto one = [](auto apply) { return [=](Inputs& in) { return apply(std::move(in[0])); }; };
  const std::vector<TensorInfo> x = {wants({4, 8})};
  return {
      {OpKind::kSum, x, one([](Value v) { return ops::sum(v, {1}, false); })},
      {OpKind::kMean, x, one([](Value v) { return ops::mean(v, {-1}, true); })},
      {OpKind::kSoftmax, x, one([](Value v) { return ops::softmax(v, -1); }), {}, {0}},
      {OpKind::kSafeSoftmax, x, one([](Value v) { return ops::safe_softmax(v, -1); }), {}, {0}},
      {OpKind::kLogSoftmax, x, one([](Value v) { return ops::log_softmax(v, -1); }), {}, {0}},
      {OpKind::kMax, x, one([](Value v) { return ops::max(v, 1)[0]; }), {}, {1}},
      {OpKind::kTopk, x, one([](Value v) { return ops::topk(v, 2, 1)[0]; }), {}, {1}},
      {OpKind::kSort, x, one([](Value v) { return ops::sort(v, 1)[0]; }), {}, {1}},
  };
}

std::vector<Example> indexing_examples() {
  return {
      {OpKind::kEmbedding,
       {wants({16, 8}), indices({2, 4})},
       [](Inputs& in) { return ops::embedding(std::move(in[0]), std::move(in[1])); },
       {1}},
      {OpKind::kGather,
       {wants({4, 8}), indices({4, 2})},
       [](Inputs& in) { return ops::gather(std::move(in[0]), 1, std::move(in[1])); },
       {1}},
      {OpKind::kScatterInPlace,
       {wants({4, 8}), indices({4, 2}), wants({4, 2})},
       [](Inputs& in) { return ops::scatter_(ops::clone(in[0]), 1, std::move(in[1]), std::move(in[2])); },
       {1}},
      {OpKind::kIndex,
       {wants({16, 8}), indices({5})},
       [](Inputs& in) { return ops::index(std::move(in[0]), {std::move(in[1])}); },
       {1}},
  };
}

std::vector<Example> network_examples() {
  const TensorInfo query = wants({2, 4, 16, 8}), key = wants({2, 4, 16, 8});
  const auto three = [](auto apply) {
    return [=](Inputs& in) { return apply(std::move(in[0]), std::move(in[1]), std::move(in[2])); };
  };
  return {
      {OpKind::kMm,
       {wants({4, 8}), wants({8, 6})},
       [](Inputs& in) { return ops::mm(std::move(in[0]), std::move(in[1])); },
       {0, 1}},
      {OpKind::kAddmm,
       {wants({6}), wants({4, 8}), wants({8, 6})},
       three([](Value b, Value x, Value w) { return ops::addmm(b, x, w); }),
       {1, 2}},
      {OpKind::kBmm,
       {wants({2, 4, 8}), wants({2, 8, 6})},
       [](Inputs& in) { return ops::bmm(std::move(in[0]), std::move(in[1])); },
       {0, 1}},
      {OpKind::kBaddbmm,
       {wants({2, 4, 6}), wants({2, 4, 8}), wants({2, 8, 6})},
       three([](Value c, Value x, Value w) { return ops::baddbmm(c, x, w, 0.5); }),
       {1, 2}},
      {OpKind::kGroupedMm,
       {wants({16, 8}), wants({2, 8, 16}), indices({2})},
       three([](Value x, Value w, Value ends) { return ops::grouped_mm(x, w, ends); }),
       {0, 1, 2}},
      {OpKind::kFusedCrossEntropy,
       {wants({4, 8}), indices({4})},
       [](Inputs& in) { return ops::fused_cross_entropy(std::move(in[0]), std::move(in[1])); },
       {0, 1},
       {1, 2}},
      {OpKind::kFusedRmsNorm,
       {wants({4, 8}), wants({8})},
       [](Inputs& in) { return ops::fused_rms_norm(std::move(in[0]), std::move(in[1])); },
       {0, 1},
       {1}},
      {OpKind::kLayerNorm,
       {wants({4, 8}), wants({8}), wants({8})},
       three([](Value x, Value w, Value b) { return ops::layer_norm(x, w, b); }),
       {0, 1, 2},
       {1, 2}},
      {OpKind::kNllLoss,
       {wants({4, 8}), indices({4})},
       [](Inputs& in) { return ops::nll_loss(std::move(in[0]), std::move(in[1])); },
       {0, 1},
       {1}},
      {OpKind::kFlashAttention,
       {query, key, key},
       three([](Value q, Value k, Value v) { return ops::flash_attention(q, k, v, true, 0); }),
       {0, 1, 2},
       {0, 1, 2, 3}},
      {OpKind::kEfficientAttention,
       {query, key, key},
       three([](Value q, Value k, Value v) { return ops::efficient_attention(q, k, v, {}, true, 0); }),
       {0, 1, 2},
       {0, 1, 2, 3}},
      {OpKind::kCudnnAttention,
       {query, key, key},
       three([](Value q, Value k, Value v) { return ops::cudnn_attention(q, k, v, true, 0); }),
       {0, 1, 2},
       {0, 1, 2, 3}},
      {OpKind::kFlashAttentionPackage,
       {query, key, key},
       three([](Value q, Value k, Value v) { return ops::flash_attention_package(q, k, v, true, 0); }),
       {0, 1, 2},
       {0, 1, 2}},
      {OpKind::kFusedLinearCrossEntropy,
       {plain({}), wants({4, 8}), wants({6, 8}), plain({4, 8}), plain({6, 8})},
       [](Inputs& in) {
         Value loss = ops::clone(in[0]);
         return loss.recorder().emit_in_place(OpKind::kFusedLinearCrossEntropy,
                                              {&loss, &in[1], &in[2], &in[3], &in[4]});
       },
       {3, 4}},
      {OpKind::kFunctionalAllReduce,
       {wants({4, 8})},
       [](Inputs& in) { return ops::functional_all_reduce(std::move(in[0])); }},
      {OpKind::kPartialGradient,
       {wants({4, 8})},
       [](Inputs& in) { return ops::with_partial_gradient(std::move(in[0])); }},
  };
}

std::vector<Example> native_examples() {
  const TensorInfo query = wants({2, 4, 16, 8}), key = wants({2, 2, 16, 8}), angles = plain({16, 4});
  return {
      {OpKind::kRmsNorm,
       {wants({4, 8}), wants({8})},
       [](Inputs& in) { return ops::rms_norm(std::move(in[0]), std::move(in[1]), 1e-6); },
       {0, 1},
       {1}},
      {OpKind::kRotary,
       {wants({2, 16, 4, 8}), angles, angles},
       [](Inputs& in) { return ops::rotary(std::move(in[0]), {.cos = in[1], .sin = in[2]}); },
       {1, 2}},
      {OpKind::kSwiglu,
       {wants({4, 8}), wants({4, 8})},
       [](Inputs& in) { return ops::swiglu(std::move(in[0]), std::move(in[1])); },
       {0, 1}},
      {OpKind::kGeluTanh, {wants({4, 8})}, [](Inputs& in) { return ops::gelu_tanh(std::move(in[0])); }, {0}},
      {OpKind::kCpuFlashAttention,
       {query, key, key},
       [](Inputs& in) {
         return ops::cpu_flash_attention(std::move(in[0]), std::move(in[1]), std::move(in[2]), true);
       },
       {0, 1, 2},
       {0, 1}},
      {OpKind::kCrossEntropy,
       {wants({4, 8}), indices({4})},
       [](Inputs& in) { return ops::cross_entropy(std::move(in[0]), std::move(in[1]), 0.25); },
       {0, 1},
       {1}},
  };
}

std::vector<Example> all_examples() {
  std::vector<Example> all;
  for (auto part : {view_examples(), pointwise_examples(), reduction_examples(), indexing_examples(),
                    network_examples(), native_examples(), megatron_examples(), megatron_expert_examples()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

Program forward_of(const Example& example) {
  Program forward;
  Recorder r(forward, Recorder::Mode::kForward);
  Inputs inputs;
  for (const TensorInfo& info : example.inputs) {
    const Category category = info.requires_grad ? Category::kParameter : Category::kInput;
    inputs.push_back(r.persistent(info.layout, info.dtype, category, ModuleId{}, info.requires_grad));
  }
  const Value root = ops::clone(example.apply(inputs));
  inputs.clear();
  r.finish();
  return forward;
}

const Op* op_of(const Program& program, OpKind kind) {
  for (const Op& op : program.ops)
    if (op.kind == kind) return &op;
  return nullptr;
}

TEST(OpTable, KeepsWhatTheFormulasName) {
  for (const Example& example : all_examples()) {
    const Program forward = forward_of(example);
    const Op* const op = op_of(forward, example.kind);
    ASSERT_NE(op, nullptr) << name_of(example.kind);
    InputSet needed;
    for (uint32_t i = 0; i < op->input_count; ++i)
      if (forward.tensor(forward.inputs(*op)[i]).requires_grad) needed.add(i);
    const OpRow& row = op_row(example.kind);
    const Saves saves = row.saves ? row.saves(forward, *op, needed) : Saves{};
    std::set<uint32_t> inputs, outputs;
    for (uint32_t i = 0; i < Saves::kMost; ++i) {
      if (saves.keeps_input(i)) inputs.insert(i);
      if (saves.keeps_output(i)) outputs.insert(i);
    }
    EXPECT_EQ(inputs, example.kept_inputs) << name_of(example.kind);
    EXPECT_EQ(outputs, example.kept_outputs) << name_of(example.kind);
  }
}

TEST(OpTable, GradientsLookLikeTheirInputs) {
  for (const Example& example : all_examples()) {
    const Differentiated d = differentiate(forward_of(example));
    for (uint32_t i = 0; i < example.inputs.size(); ++i) {
      const TensorInfo& input = example.inputs[i];
      ASSERT_EQ(d.gradients.contains(i), input.requires_grad) << name_of(example.kind) << " input " << i;
      if (!input.requires_grad) continue;
      EXPECT_TRUE(d.gradients.at(i).layout.has_shape_of(input.layout)) << name_of(example.kind);
      EXPECT_EQ(d.gradients.at(i).dtype, input.dtype) << name_of(example.kind);
    }
  }
}

TEST(OpTable, EveryKindWithARuleHasAnExample) {
  std::set<OpKind> shown = {OpKind::kBoundary};  // made by Autograd itself, see autograd_test.cc
  for (const Example& example : all_examples()) shown.insert(example.kind);
  for (OpKind kind : all_op_kinds())
    EXPECT_EQ(op_row(kind).backward != nullptr, shown.contains(kind)) << name_of(kind);
}

}  // namespace
}  // namespace plimsoll
