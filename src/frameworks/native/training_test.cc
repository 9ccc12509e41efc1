// What the native runtime's programs hold: the ZeRO table, its laws, and that every op has what it needs.
#include "frameworks/native/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frameworks/native/small_training.h"
#include "frameworks/native/units.h"
#include "program/op_flops.h"
#include "program/text.h"

namespace plimsoll::native {
namespace {

using testing::HasSubstr;

class Stages : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Native, Stages, testing::Values(0, 1, 2, 3));

// facts: bf16 parameters and fp32 masters, moments and gradients; with everything divided 18 bytes a
// parameter.
TEST_P(Stages, HoldWhatTheZeroTableSays) {
  const int64_t stage = GetParam();
  const Training t = training_of(small("llama"), with_stage(stage));
  const int64_t all = elements_of(t), part = all / kRanks;
  EXPECT_EQ(all % kRanks, 0);
  std::map<Category, int64_t> held = live_after(t, {t.load});
  EXPECT_EQ(held[Category::kParameter], 2 * (stage >= 3 ? part : all));
  EXPECT_EQ(held[Category::kMasterParameter], 4 * (stage >= 1 ? part : all));
  EXPECT_EQ(held[Category::kOptimizerState], 8 * (stage >= 1 ? part : all));
  EXPECT_EQ(held[Category::kUnshardedParameter], 0);
  held = live_after(t, {t.load, t.micro_steps[0].forward, t.micro_steps[0].backward});
  EXPECT_EQ(held[Category::kGradient], 4 * (stage >= 1 ? part : all));
  held = live_after(t, {t.load, t.micro_steps[0].forward, t.micro_steps[0].backward, t.step});
  EXPECT_EQ(held[Category::kGradient], 0);
}

// Per parameter: AdamW keeps two moments in fp32, SGD nothing, with momentum one tensor, Lion one.
TEST_P(Stages, OptimizersKeepTheirStates) {
  const std::map<std::string, int64_t> states = {{"adamw", 2}, {"sgd", 0}, {"sgd-momentum", 1}, {"lion", 1}};
  for (const auto& [name, count] : states) {
    const Training t = training_of(small("llama"), with_stage(GetParam(), {"optimizer.name=" + name}));
    const int64_t held = elements_of(t) / (GetParam() >= 1 ? kRanks : 1);
    EXPECT_EQ(live_after(t, {t.load})[Category::kOptimizerState], 4 * count * held) << name;
    const std::string text = to_text(t.program);
    const Result<Program> parsed = parse_program(text, "test");
    ASSERT_TRUE(parsed) << parsed.error().to_text();
    EXPECT_EQ(to_text(*parsed), text);
  }
}

// Of a matrix a mean for each row and each column, of a vector one number an element; on every rank all of
// them. The step's temporaries are statistics in fp64 of all units, which become a unit's factors in fp32 one
// after another, and a norm of each tensor.
TEST_P(Stages, AdafactorKeepsMeansOfRowsAndColumns) {
  for (const std::string family : {"llama", "gpt2"}) {
    const Architecture a = small(family);
    int64_t means = 0;
    for (const ParameterTensor& p : a.parameters)
      means += std::accumulate(p.shape.begin(), p.shape.end(), int64_t{0});
    const Training t = training_of(a, with_stage(GetParam(), {"optimizer.name=adafactor"}));
    Holdings holdings(t);
    holdings.play({t.load});
    EXPECT_EQ(holdings.live(Tier::kGpu, Category::kOptimizerState), 4 * means) << family;
    holdings.play({t.micro_steps[0].forward, t.micro_steps[0].backward}).play({t.step});
    int64_t temporaries = 8 * means, peak = 0;
    for (const UnitTensors& u : t.units) {
      const int64_t of_unit = u.states[0].layout.elements;
      peak = std::max(peak, temporaries + 4 * of_unit);
      temporaries -= (8 - 4) * of_unit;
    }
    EXPECT_EQ(holdings.peak(Tier::kGpu, Category::kTemporary),
              peak + 8 * static_cast<int64_t>(a.parameters.size()))
        << family;
    EXPECT_EQ(holdings.live(Tier::kGpu, Category::kTemporary), 0) << family;
    const std::string text = to_text(t.program);
    const Result<Program> parsed = parse_program(text, "test");
    ASSERT_TRUE(parsed) << parsed.error().to_text();
    EXPECT_EQ(to_text(*parsed), text);
  }
}

// Of each tensor a rank reads its piece and changes it, and nothing that another rank has: the pieces of all
// ranks are the tensor.
TEST_P(Stages, AdafactorsPiecesAreEveryElementOnce) {
  const Architecture a = small("gpt2");
  const int64_t ranks = GetParam() >= 1 ? kRanks : 1;
  std::map<std::string, int64_t> updated;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Training t = training_of(a, with_stage(GetParam(), {"optimizer.name=adafactor"}), rank);
    for (const Op& op : t.program.ops) {
      if (op.kind != OpKind::kAdafactorUpdate) continue;
      int64_t& end = updated[t.program.module_name(op.module)];
      const int64_t elements = t.program.tensor(t.program.inputs(op)[0]).layout.elements();
      if (elements == 0) continue;
      EXPECT_EQ(std::get<SliceAttr>(t.program.attributes_of(op)).start, end);
      end += elements;
    }
  }
  for (const ParameterTensor& p : a.parameters) EXPECT_EQ(updated[p.name], p.elements()) << p.name;
}

// In fp32 a linear layer's gradient is added by its product, and so are those of the hidden states that
// several layers read: no storage, no pass over it.
TEST(NativeTraining, ProductsAreSummedInPlace) {
  const Architecture a = small("llama");
  const Training t = training_of(a, {"precision=fp32", "batch.accumulation=2"});
  size_t weights = 0, hidden = 0, linears = 0;
  for (const Op& op : t.program.ops) {
    if (op.kind != OpKind::kAddmmOut) continue;
    const bool is_of_weights = t.program.storage_of(t.program.inputs(op)[0]).category == Category::kGradient;
    ++(is_of_weights ? weights : hidden);
  }
  for (const ParameterTensor& p : a.parameters)
    linears += p.shape.size() == 2 && p.name.find("embed") == std::string::npos ? 1 : 0;
  EXPECT_EQ(weights, 2 * linears);             // in each of two micro-batches
  EXPECT_EQ(hidden, 2 * 3 * a.layers.size());  // of q, k and v, of gate and up: all but the first
  const std::string text = to_text(t.program);
  const Result<Program> parsed = parse_program(text, "test");
  ASSERT_TRUE(parsed) << parsed.error().to_text();
  EXPECT_EQ(to_text(*parsed), text);
}

// Of a token: 2 for each weight of a linear layer, 4 x sequence for each channel of attention. Source:
// Chowdhery et al., arXiv:2204.02311, appendix B (6 and 12 with the backward).
TEST(NativeTraining, ModelFlopsAreThoseOfTheFormula) {
  constexpr int64_t kSequence = 16, kTokens = 2 * kSequence;  // job_of()
  for (const std::string family : {"llama", "qwen3", "mistral", "qwen2"})
    for (const std::string recompute : {"none", "full", "selective"}) {
      const Architecture a = small(family);
      const Training t = training_of(a, {"recompute.mode=" + recompute});
      int64_t weights = a.is_tied ? a.vocab * a.hidden : 0, channels = 0;
      for (const ParameterTensor& p : a.parameters)
        if (p.shape.size() == 2 && p.name.find("embed") == std::string::npos) weights += p.elements();
      for (const Layer& layer : a.layers) channels += layer.attention.heads * layer.attention.head_dim;
      EXPECT_EQ(section_flops(t.program, t.micro_steps[0].forward),
                Flops{kTokens * (2 * weights + 4 * channels * kSequence)})
          << family << recompute;
    }
}

// A step leaves exactly what it found, so every later step is like the first.
TEST_P(Stages, StepsLeaveNothingBehind) {
  for (const std::string recompute : {"none", "full", "every-2", "selective"}) {
    const Training t = training_of(
        small("qwen3"), with_stage(GetParam(), {"recompute.mode=" + recompute, "batch.accumulation=3"}));
    std::vector<uint32_t> sections{t.load};
    const std::map<Category, int64_t> before = live_after(t, sections);
    for (const MicroStep& m : t.micro_steps) sections.insert(sections.end(), {m.forward, m.backward});
    sections.push_back(t.step);
    std::map<Category, int64_t> after = live_after(t, sections);
    for (auto [category, bytes] : after) {
      const auto found = before.find(category);
      EXPECT_EQ(bytes, found == before.end() ? 0 : found->second) << name_of(category) << recompute;
    }
  }
}

// Ranks differ in where their part begins, in nothing else.
TEST_P(Stages, RanksAreAlikeButForOffsets) {
  for (const std::string optimizer : {"adamw", "adafactor"}) {
    const std::vector<std::string> settings = with_stage(GetParam(), {"optimizer.name=" + optimizer});
    const Training first = training_of(small("gpt2"), settings, 0);
    const Training last = training_of(small("gpt2"), settings, kRanks - 1);
    ASSERT_EQ(first.program.statements.size(), last.program.statements.size());
    ASSERT_EQ(first.program.storages.size(), last.program.storages.size());
    for (size_t i = 0; i < first.program.storages.size(); ++i)
      EXPECT_EQ(first.program.storages[i].bytes, last.program.storages[i].bytes);
    for (size_t i = 0; i < first.program.ops.size(); ++i)
      EXPECT_EQ(first.program.ops[i].kind, last.program.ops[i].kind);
  }
}

TEST_P(Stages, TextFormRoundTrips) {
  const Training t = training_of(small("llama"), with_stage(GetParam()));
  const std::string text = to_text(t.program);
  const Result<Program> parsed = parse_program(text, "test");
  ASSERT_TRUE(parsed) << parsed.error().to_text();
  EXPECT_EQ(to_text(*parsed), text);
}

// Over one rank nothing is divided: each stage is the program without an engine.
TEST(NativeTraining, OneRankIsTheProgramWithoutAnEngine) {
  const Architecture a = small("llama");
  const std::string none = to_text(training_of(a, {}).program);
  for (const std::string stage : {"0", "1", "2", "3"})
    EXPECT_EQ(to_text(training_of(a, {"parallel.engine=zero", "zero.stage=" + stage}).program), none);
}

TEST(NativeTraining, UnitsTakeEveryParameterOnceInOrder) {
  for (const std::string family : {"llama", "gpt2", "qwen3", "mistral", "qwen2"}) {
    const Architecture a = small(family);
    std::vector<int> times(a.parameters.size());
    for (const Unit& unit : make_units(a, 3)) {
      EXPECT_EQ(unit.elements % (3 * kUnitAlignment), 0);
      int64_t end = 0;
      for (const UnitTensor& t : unit.tensors) {
        ++times[t.parameter];
        EXPECT_GE(t.offset, end);
        EXPECT_LT(t.offset - end, kUnitAlignment);
        EXPECT_EQ(t.elements, a.parameters[t.parameter].elements());
        end = t.offset + t.elements;
      }
      EXPECT_GE(unit.elements, end);
      EXPECT_LT(unit.elements - end, 4 * kUnitAlignment);
    }
    EXPECT_THAT(times, testing::Each(1)) << family;
  }
}

TEST(NativeTraining, WhatItCannotDoIsRefusedByName) {
  const auto error = [](const std::string& family, const std::vector<std::string>& settings) {
    const auto job = job_of(small(family), settings);
    return job ? std::string() : job.error().to_text();
  };
  EXPECT_THAT(error("gemma", {}), HasSubstr("framework native has no family gemma"));
  EXPECT_THAT(error("llama", {"precision=fp16"}), HasSubstr("fp32 or bf16-mixed"));
  EXPECT_THAT(error("llama", {"hardware.gpus=2", "parallel.engine=fsdp2"}), HasSubstr("none or zero"));
  EXPECT_THAT(error("llama", {"optimizer.name=muon"}),
              HasSubstr("muon is not supported with framework native"));
  EXPECT_THAT(error("llama", {"optimizer.name=sgd-fused"}),
              HasSubstr("one of adamw, sgd, sgd-momentum, lion, adafactor"));
  EXPECT_THAT(error("llama", {"loss.path=chunked"}),
              HasSubstr("chunked is not supported with framework native"));
  EXPECT_THAT(error("llama", {"loop.hold_outputs=true"}), HasSubstr("loop.hold_outputs"));
  EXPECT_THAT(error("llama", {"train.beta2=1"}), HasSubstr("1 keeps nothing of a gradient"));
  EXPECT_THAT(error("llama", {"batch.accumulation=16385"}), HasSubstr("16385 micro-batches"));
  EXPECT_EQ(error("llama", {}), "");
}

// A model that would be computed otherwise than its configuration says.
TEST(NativeTraining, ActivationsAndPositionsWithoutAnOpAreRefused) {
  using pytorch::member;
  const auto text = [](std::string key, std::string value) {
    return ConfigMember{.key = std::move(key), .value = {std::move(value)}};
  };
  const auto error = [](const Architecture& a) {
    const auto job = job_of(a, {});
    return job ? std::string() : job.error().to_text();
  };
  for (const std::string act : {"relu", "gelu", "gelu_new", "tanh"})
    EXPECT_THAT(error(pytorch::small("qwen2", {member("head_dim", 8), text("hidden_act", act)})),
                HasSubstr("no activation " + act + " in a gated feed-forward"));
  for (const std::string act : {"silu", "tanh", "quick_gelu"})
    EXPECT_THAT(error(pytorch::small("gpt2", {text("activation_function", act)})),
                HasSubstr("no activation " + act + " in a plain feed-forward"));
  for (const std::string act : {"relu", "gelu", "gelu_new", "gelu_pytorch_tanh"})
    EXPECT_EQ(error(pytorch::small("gpt2", {text("activation_function", act)})), "");
  Architecture partly = small("llama");
  partly.layers[1].attention.rotary_dim = 4;
  EXPECT_THAT(error(partly), HasSubstr("not 4 of 8 dimensions"));
}

}  // namespace
}  // namespace plimsoll::native
