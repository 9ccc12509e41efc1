// What the derived backward keeps of a transformer layer, against the closed forms of the literature. No
// formula of this file is in the product: there an activation is alive because an op's rule saves it.
//
// Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", table 2;
// for the second layer the same count with RMSNorm, grouped-query heads, SwiGLU and FlashAttention.
#include <gtest/gtest.h>

#include "program/differentiate_fixture.h"

namespace plimsoll {
namespace {

constexpr DType kHalf = DType::kBFloat16;

// ---- a layer of GPT: LayerNorm, dropout, attention that stores its scores ----

struct GptShape {
  int64_t s = 256, b = 2, h = 512, a = 8;
  int64_t head_dim() const { return h / a; }
  Bytes sbh() const { return Bytes{s * b * h}; }
  Bytes as2b() const { return Bytes{a * s * s * b}; }
  // Mean and deviation of each row in fp32, for two norms: below the papers' precision.
  Bytes norm_statistics() const { return Bytes{2 * 2 * 4 * s * b}; }
};

class GptLayer {
 public:
  GptLayer(Recorder& r, const GptShape& shape) : r_(r), n_(shape) {}

  // x [s, b, h]
  Value forward(const Value& x) {
    Value attended = ops::add(x, dropout(attention(norm(x))));
    Value fed = dropout(mlp(norm(attended)));
    return ops::add(std::move(attended), std::move(fed));
  }

  std::optional<RegionId> core;  // the attention core's region, once written

 private:
  Value weight(std::initializer_list<int64_t> sizes) {
    return r_.persistent(Layout::contiguous(sizes), kHalf, Category::kParameter, ModuleId{}, true);
  }
  Value linear(const Value& x, int64_t out) {
    return ops::linear(x, weight({out, x.size(-1)}), weight({out}));
  }
  Value norm(const Value& x) { return ops::layer_norm(x, weight({n_.h}), weight({n_.h})); }
  static Value dropout(Value x) { return ops::dropout(std::move(x), 0.1); }

  Value mlp(const Value& x) { return linear(ops::gelu(linear(x, 4 * n_.h)), n_.h); }

  Value attention(const Value& x) {
    Value mixed = ops::view(linear(x, 3 * n_.h), {n_.s, n_.b, n_.a, 3 * n_.head_dim()});
    std::vector<Value> parts = ops::chunk(std::move(mixed), 3, -1);
    for (Value& part : parts)  // [b * a, s, d]
      part = ops::transpose(ops::view(std::move(part), {n_.s, n_.b * n_.a, n_.head_dim()}), 0, 1);
    Value context = attention_core(parts[0], parts[1], parts[2]);
    parts.clear();
    context = ops::contiguous(ops::transpose(std::move(context), 0, 1));
    return linear(ops::view(std::move(context), {n_.s, n_.b, n_.h}), n_.h);
  }

  Value attention_core(const Value& q, const Value& k, const Value& v) {
    Program& program = r_.program();
    core = RegionId{static_cast<uint32_t>(program.regions.size())};
    program.regions.push_back({.arguments = {q.id(), k.id(), v.id()}});
    r_.begin(*core);
    Value scores = ops::mul(ops::bmm(q, ops::transpose(k, 1, 2)), 0.125);
    Value context = ops::bmm(dropout(ops::softmax(std::move(scores), -1)), v);
    program.regions[core->value].results = {context.id()};
    r_.end(*core);
    return context;
  }

  Recorder& r_;
  const GptShape& n_;
};

enum class Recomputed { kNothing, kAttentionCore, kLayer };

// What is kept of one layer and its input.
Bytes kept_of_gpt_layer(const GptShape& n, Recomputed recomputed) {
  Program forward;
  Recorder r(forward, Recorder::Mode::kForward);
  {
    GptLayer layer(r, n);
    const Value x =
        r.persistent(Layout::contiguous({n.s, n.b, n.h}), kHalf, Category::kInput, ModuleId{}, true);
    forward.regions.push_back({.arguments = {x.id()}});
    r.begin(RegionId{0});
    const Value y = layer.forward(x);
    forward.regions[0].results = {y.id()};
    r.end(RegionId{0});
    r.finish();
    if (recomputed == Recomputed::kLayer) forward.regions[0].checkpoint = Checkpoint::kNonReentrant;
    if (recomputed == Recomputed::kAttentionCore)
      forward.regions[layer.core->value].checkpoint = Checkpoint::kNonReentrant;
  }
  return kept_between(differentiate(forward).program);
}

TEST(ClosedForms, AGptLayerKeeps34sbhAnd5as2b) {
  for (const GptShape& n : {GptShape{}, GptShape{.s = 512, .b = 1, .h = 256, .a = 4}})
    EXPECT_EQ(kept_of_gpt_layer(n, Recomputed::kNothing), n.sbh() * 34 + n.as2b() * 5 + n.norm_statistics());
}

TEST(ClosedForms, RecomputingTheAttentionCoreSaves5as2b) {
  const GptShape n;
  EXPECT_EQ(kept_of_gpt_layer(n, Recomputed::kAttentionCore), n.sbh() * 34 + n.norm_statistics());
}

TEST(ClosedForms, RecomputingTheLayerKeepsItsInput) {
  const GptShape n;
  EXPECT_EQ(kept_of_gpt_layer(n, Recomputed::kLayer), n.sbh() * 2);
}

// ---- a modern layer: fused norm, grouped-query heads, SwiGLU, FlashAttention, no dropout ----

struct ModernShape {
  int64_t s = 256, b = 2, h = 512, a = 8, k = 2, d = 64, f = 1024;
  int64_t tokens() const { return s * b; }
};

class ModernLayer {
 public:
  ModernLayer(Recorder& r, const ModernShape& shape) : r_(r), n_(shape) {}

  // x [b, s, h]
  Value forward(const Value& x) {
    Value attended = ops::add(x, attention(norm(x)));
    Value fed = mlp(norm(attended));
    return ops::add(std::move(attended), std::move(fed));
  }

 private:
  Value weight(std::initializer_list<int64_t> sizes) {
    return r_.persistent(Layout::contiguous(sizes), kHalf, Category::kParameter, ModuleId{}, true);
  }
  Value linear(const Value& x, int64_t out) { return ops::linear(x, weight({out, x.size(-1)}), {}); }
  // As a fused RMSNorm keeps: its input and statistics (a mean too).
  Value norm(const Value& x) { return ops::layer_norm(x, weight({n_.h}), {}); }

  Value mlp(const Value& x) {
    Value gate = ops::silu(linear(x, n_.f));
    Value up = linear(x, n_.f);
    return linear(ops::mul(std::move(gate), std::move(up)), n_.h);
  }

  Value heads(const Value& x, int64_t count) {
    return ops::transpose(ops::view(linear(x, count * n_.d), {n_.b, n_.s, count, n_.d}), 1, 2);
  }

  Value attention(const Value& x) {
    const Value q = heads(x, n_.a), k = heads(x, n_.k), v = heads(x, n_.k);
    Value out = ops::transpose(ops::flash_attention(q, k, v, true, 0), 1, 2);
    return linear(ops::reshape(std::move(out), {n_.b, n_.s, n_.a * n_.d}), n_.h);
  }

  Recorder& r_;
  const ModernShape& n_;
};

TEST(ClosedForms, AModernLayerKeeps8hAnd4adAnd4kdAnd4aAnd8fPerToken) {
  const ModernShape n;
  Program forward;
  Recorder r(forward, Recorder::Mode::kForward);
  {
    const Value x =
        r.persistent(Layout::contiguous({n.b, n.s, n.h}), kHalf, Category::kInput, ModuleId{}, true);
    const Value y = ModernLayer(r, n).forward(x);
    r.finish();
  }
  constexpr int64_t kNormStatistics = 2 * 2 * 4;  // per token
  constexpr Bytes kGeneratorState{3 * 8};         // the attention kernel's seed and offset
  const int64_t per_token = 8 * n.h + 4 * n.a * n.d + 4 * n.k * n.d + 4 * n.a + 8 * n.f + kNormStatistics;
  EXPECT_EQ(kept_between(differentiate(forward).program), Bytes{n.tokens()} * per_token + kGeneratorState);
}

}  // namespace
}  // namespace plimsoll
