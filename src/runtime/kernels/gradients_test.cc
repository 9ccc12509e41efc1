// Every op that has a gradient, as the op table writes it and the kernels compute it, against autograd in
// fp64 on a formula of ATen's: results, and the gradients of all inputs for a random gradient of the result.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

#include "program/op_table.h"
#include "program/ops.h"
#include "runtime/executor.h"
#include "runtime/measured_allocator.h"

namespace plimsoll::runtime {
namespace {

using Tensors = std::vector<at::Tensor>;
using Values = std::vector<Value>;

// Of the norm of a difference over that of what is expected. fp32: vectorised functions of ATen are off by up
// to 20 units of the last place (exp_u20), 20 x 2^-24. bf16: what the forward keeps and each result is
// rounded to 2^-9 of itself, some times on the way.
constexpr double kBoundOfFp32 = 5e-6, kBoundOfBf16 = 1.0 / 64;

struct Case {
  Tensors inputs;                               // fp64, and int64 ids; laid out as the op is given them
  std::function<Value(Values&)> op;             // writes one op
  std::function<at::Tensor(Tensors&)> formula;  // in fp64
  std::vector<size_t> constants = {};           // of fp32 whatever the op computes in, without a gradient
};
struct NamedCase {
  std::string name;
  Case (*make)();
};
void PrintTo(const NamedCase& c, std::ostream* out) { *out << c.name; }

Layout layout_of(const at::Tensor& t) {
  Layout layout{.rank = static_cast<int8_t>(t.dim())};
  for (size_t d = 0; d < static_cast<size_t>(t.dim()); ++d) {
    layout.sizes.at(d) = t.size(static_cast<int64_t>(d));
    layout.strides.at(d) = t.stride(static_cast<int64_t>(d));
  }
  return layout;
}

// A case's op and its gradient as a program: "load" makes what no op makes, "play" is the rest.
class Played {
 public:
  Played(const Case& c, DType dtype) : case_(c), dtype_(dtype) {
    write_forward();
    const Op& op = forward_.ops.at(0);
    std::vector<TensorId> inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      inputs_.push_back(persistent(recorder_, i));
      inputs.push_back(inputs_.back().id());
    }
    const TensorInfo& result = forward_.tensor(forward_.outputs(op)[0]);
    gradient_ = recorder_.persistent(Layout::contiguous(result.layout.shape()), result.dtype,
                                     Category::kGradient, {});
    inputs.push_back(gradient_.id());
    recorder_.emit_allocation(OpKind::kEmpty, inputs);
    inputs.pop_back();
    end_section("load");
    recorder_.replay(forward_, op, inputs, outputs_);
    end_section("forward");
    write_backward(op);
    end_section("backward");
    recorder_.finish();
  }

  at::Tensor result;
  Tensors gradients;  // of the inputs; undefined where there is none

  void play(const Tensors& inputs, const at::Tensor& gradient) {
    Result<Executor> executor = Executor::make(program_, {.allocator = &MeasuredAllocator::install()});
    ASSERT_TRUE(executor) << executor.error().to_text();
    ASSERT_TRUE(executor->play(0));
    for (size_t i = 0; i < inputs.size(); ++i) executor->tensor(inputs_[i].id()).copy_(inputs[i]);
    executor->tensor(gradient_.id()).copy_(gradient);
    play_section(*executor, 1);
    result = executor->tensor(outputs_[0].id()).to(at::kDouble);
    play_section(*executor, 2);
    for (const Value& v : results_)
      gradients.push_back(v ? executor->tensor(v.id()).to(at::kDouble, false, true) : at::Tensor());
  }

  const Layout& result_layout() const { return outputs_[0].layout(); }

 private:
  void write_forward() {
    Recorder recorder(forward_, Recorder::Mode::kForward);
    Values inputs;
    for (size_t i = 0; i < case_.inputs.size(); ++i) inputs.push_back(persistent(recorder, i));
    const Value result = case_.op(inputs);
    recorder.finish();
    ASSERT_EQ(forward_.ops.size(), 1U);
  }

  bool is_constant(size_t i) const {
    return !case_.inputs[i].is_floating_point() || std::ranges::count(case_.constants, i) > 0;
  }
  Value persistent(Recorder& recorder, size_t i) const {
    const DType dtype =
        case_.inputs[i].is_floating_point() ? (is_constant(i) ? DType::kFloat32 : dtype_) : DType::kInt64;
    return recorder.persistent(layout_of(case_.inputs[i]), dtype, Category::kParameter, {}, !is_constant(i));
  }

  void write_backward(const Op& op) {
    Values gradients(op.output_count);
    gradients[0] = gradient_;
    BackwardCall call(recorder_, forward_, op, gradients);
    for (size_t i = 0; i < case_.inputs.size(); ++i)
      if (!is_constant(i)) call.needed.add(i);
    call.saved_inputs = inputs_;
    call.saved_outputs = outputs_;
    op_row(op.kind).backward(call);
    results_ = call.results;
  }

  void end_section(const std::string& name) {
    const uint32_t first = program_.sections.empty() ? 0 : program_.sections.back().last_statement;
    program_.sections.push_back({.name = name,
                                 .first_statement = first,
                                 .last_statement = static_cast<uint32_t>(program_.statements.size())});
  }

  static void play_section(Executor& executor, uint32_t section) {
    const Result<void> done = executor.play(section);
    ASSERT_TRUE(done) << done.error().to_text();
  }

  const Case& case_;
  const DType dtype_;
  Program forward_, program_;
  Recorder recorder_{program_, Recorder::Mode::kComplete};  // before the Values, which end first
  Values inputs_, outputs_, results_;
  Value gradient_;
};

at::Tensor normal(at::IntArrayRef sizes) {
  static const at::Generator generator = at::detail::createCPUGenerator(3);
  return at::randn(sizes, generator, at::TensorOptions(at::kDouble));
}
at::Tensor some_ids(int64_t count, int64_t below) {
  return at::randint(0, below, {count}, at::detail::createCPUGenerator(4), at::TensorOptions(at::kLong));
}

// ---- formulas ----

at::Tensor rms_norm(Tensors& in) { return in[0] * at::rsqrt(in[0].square().mean(-1, true) + 1e-5) * in[1]; }

// x [b, s, heads, d], cos and sin [s, d / 2]: the halves of each head are the parts of a complex number.
at::Tensor turned(Tensors& in) {
  const int64_t half = in[0].size(3) / 2;
  const at::Tensor a = in[0].narrow(3, 0, half), b = in[0].narrow(3, half, half), cos = in[1].unsqueeze(1),
                   sin = in[2].unsqueeze(1);
  return at::cat({a * cos - b * sin, b * cos + a * sin}, 3);
}

at::Tensor cross_entropy(Tensors& in) {
  const at::Tensor chosen = at::log_softmax(in[0], 1).gather(1, in[1].unsqueeze(1));
  return chosen.sum() * -0.125;
}

at::Tensor attention(Tensors& in) {
  const int64_t d = in[0].size(3), s = in[0].size(2), times = in[0].size(1) / in[1].size(1);
  const at::Tensor k = in[1].repeat_interleave(times, 1), v = in[2].repeat_interleave(times, 1);
  const at::Tensor scores = in[0].matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(d));
  const at::Tensor seen = at::full({s, s}, 1, at::TensorOptions(at::kBool)).tril();
  return at::softmax(scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity()), -1)
      .matmul(v);
}

// Heads lie beside each other in a token, as projections leave them.
at::Tensor heads(int64_t count) { return normal({2, 7, count, 8}).transpose(1, 2); }

Case attention_of(int64_t kv_heads) {
  return {.inputs = {heads(4), heads(kv_heads), heads(kv_heads)},
          .op = [](Values& v) { return ops::cpu_flash_attention(v[0], v[1], v[2], true); },
          .formula = attention};
}

Case rotary_of(const at::Tensor& x) {
  const at::Tensor angles = normal({x.size(1), x.size(3) / 2});
  return {.inputs = {x, at::cos(angles), at::sin(angles)},
          .op = [](Values& v) { return ops::rotary(v[0], {.cos = v[1], .sin = v[2]}); },
          .formula = turned,
          .constants = {1, 2}};
}

Case activation(Value (*op)(Value), at::Tensor (*formula)(const at::Tensor&)) {
  return {.inputs = {normal({6, 40})},
          .op = [op](Values& v) { return op(v[0]); },
          .formula = [formula](Tensors& in) { return formula(in[0]); }};
}

Case swiglu() {
  return {.inputs = {normal({6, 40}), normal({6, 40})},
          .op = [](Values& v) { return ops::swiglu(v[0], v[1]); },
          .formula = [](Tensors& in) { return at::silu(in[0]) * in[1]; }};
}

Case rms_norm_of(const at::Tensor& x) {
  return {.inputs = {x, normal({x.size(-1)})},
          .op = [](Values& v) { return ops::rms_norm(v[0], v[1], 1e-5); },
          .formula = rms_norm};
}

Case layer_norm() {
  return {.inputs = {normal({35, 24}), normal({24}), normal({24})},
          .op = [](Values& v) { return ops::layer_norm(v[0], v[1], v[2], 1e-5); },
          .formula = [](Tensors& in) { return at::layer_norm(in[0], {24}, in[1], in[2], 1e-5); }};
}

Case cross_entropy_of(int64_t rows, int64_t vocabulary) {
  return {.inputs = {normal({rows, vocabulary}), some_ids(rows, vocabulary)},
          .op = [](Values& v) { return ops::cross_entropy(v[0], v[1], 0.125); },
          .formula = cross_entropy};
}

Case embedding() {
  return {.inputs = {normal({12, 16}), some_ids(30, 12)},
          .op = [](Values& v) { return ops::embedding(v[0], v[1]); },
          .formula = [](Tensors& in) { return in[0].index_select(0, in[1]); }};
}

Case product_with(const at::Tensor& right) {
  return {.inputs = {normal({9, 16}), right},
          .op = [](Values& v) { return ops::mm(v[0], v[1]); },
          .formula = [](Tensors& in) { return in[0].matmul(in[1]); }};
}

// Made when they are run: ctest runs each test in a process of its own.
const NamedCase kCases[] = {
    {"gelu", [] { return activation(ops::gelu, [](const at::Tensor& x) { return at::gelu(x, "none"); }); }},
    {"gelu_tanh",
     [] { return activation(ops::gelu_tanh, [](const at::Tensor& x) { return at::gelu(x, "tanh"); }); }},
    {"relu", [] { return activation(ops::relu, [](const at::Tensor& x) { return at::relu(x); }); }},
    {"swiglu", swiglu},
    {"rms_norm",
     [] {
       return rms_norm_of(normal({35, 24}));
     }},
    {"rms_norm_of_heads",
     [] {
       return rms_norm_of(normal({2, 5, 3, 8}));
     }},
    {"layer_norm", layer_norm},
    {"rotary",
     [] {
       return rotary_of(normal({2, 7, 3, 8}));
     }},
    {"rotary_of_transposed_heads",
     [] {
       return rotary_of(normal({2, 3, 7, 8}).transpose(1, 2));
     }},
    {"cross_entropy", [] { return cross_entropy_of(9, 50); }},
    // More rows than are widened to fp32 at once.
    {"cross_entropy_of_a_large_vocabulary", [] { return cross_entropy_of(5, 400'000); }},
    {"attention", [] { return attention_of(4); }},
    {"attention_of_grouped_heads", [] { return attention_of(2); }},
    {"embedding", embedding},
    {"product",
     [] {
       return product_with(normal({16, 12}));
     }},
    {"product_with_a_transposed_weight",
     [] {
       return product_with(normal({12, 16}).t());
     }},
};

class Gradients : public testing::TestWithParam<NamedCase> {};
INSTANTIATE_TEST_SUITE_P(Kernels, Gradients, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

double relative(const at::Tensor& difference, const at::Tensor& expected) {
  return difference.norm().item<double>() / std::max(expected.norm().item<double>(), 1e-9);
}

// As they are after rounding to the dtype, so that both sides begin with the same numbers; laid out as
// before.
Tensors rounded(const Case& c, at::ScalarType dtype) {
  Tensors all;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const at::Tensor& x = c.inputs[i];
    const bool is_constant = std::ranges::count(c.constants, i) > 0;
    all.push_back(x.is_floating_point() ? x.to(is_constant ? at::kFloat : dtype).to(at::kDouble) : x);
  }
  return all;
}

void hold_against_autograd(const Case& c, DType dtype, at::ScalarType scalar_type, double bound) {
  Played played(c, dtype);
  Tensors inputs = rounded(c, scalar_type);
  const Layout& layout = played.result_layout();
  const at::Tensor gradient =
      normal({layout.sizes.data(), static_cast<size_t>(layout.rank)}).to(scalar_type).to(at::kDouble);
  played.play(inputs, gradient);

  for (size_t i = 0; i < inputs.size(); ++i)
    if (played.gradients.at(i).defined()) inputs[i] = inputs[i].detach().requires_grad_(true);
  const at::Tensor expected = c.formula(inputs);
  expected.backward(gradient);
  EXPECT_LT(relative(played.result - expected.detach(), expected.detach()), bound) << "the result";
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool wants_one = inputs[i].is_floating_point() && std::ranges::count(c.constants, i) == 0;
    ASSERT_EQ(played.gradients[i].defined(), wants_one) << "input " << i;
    if (!wants_one) continue;
    EXPECT_LT(relative(played.gradients[i] - inputs[i].grad(), inputs[i].grad()), bound) << "input " << i;
  }
}

TEST_P(Gradients, AreAutogradsInFp32) {
  hold_against_autograd(GetParam().make(), DType::kFloat32, at::kFloat, kBoundOfFp32);
}

TEST_P(Gradients, AreAutogradsButForRoundingInBf16) {
  hold_against_autograd(GetParam().make(), DType::kBFloat16, at::kBFloat16, kBoundOfBf16);
}

}  // namespace
}  // namespace plimsoll::runtime
