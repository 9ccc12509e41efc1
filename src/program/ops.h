// The vocabulary in which recipes and backward rules are written: one function per operator, shapes inferred
// as ATen does. Every function takes its Values by value and lets go of them when the op is written; give an
// lvalue to keep it.
//
//   Value scores = ops::matmul(q, ops::transpose(k, 2, 3));      // q and k live on
//   scores = ops::softmax(std::move(scores), -1);                // the old scores die here
//
// REQUIRES shapes that fit; a mistake is the recipe's and asserted. Dtypes promote as in ATen.
// Source: aten/src/ATen/native/*.cpp, torch/_meta_registrations.py.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "program/recorder.h"

namespace plimsoll::ops {

using Sizes = std::span<const int64_t>;
using SizeList = std::initializer_list<int64_t>;

// ---- views ----
Value view(Value x, SizeList sizes);  // one size may be -1
Value view(Value x, Sizes sizes);
Value unsafe_view(Value x, Sizes sizes);
Value reshape(Value x, SizeList sizes);  // a view, or a clone where none exists
Value reshape(Value x, Sizes sizes);
Value transpose(Value x, int a, int b);
Value permute(Value x, std::initializer_list<int> order);
Value expand(Value x, SizeList sizes);  // -1 keeps
Value expand(Value x, Sizes sizes);
// As Python's x[..., start:start + length * step:step]: an alias when that is the whole dim.
Value slice(Value x, int dim, int64_t start, int64_t length, int64_t step = 1);
// x[..., start:start + length] as Python indexes: an alias when that is everything.
Value slice_or_alias(Value x, int dim, int64_t start, int64_t length);
Value select(Value x, int dim, int64_t index);
Value unsqueeze(Value x, int dim);
Value squeeze(Value x, int dim);
std::vector<Value> split(Value x, Sizes lengths, int dim);
std::vector<Value> chunk(Value x, int64_t count, int dim);
std::vector<Value> unbind(Value x, int dim);
Value detach(Value x);
Value view_as_complex(Value x);  // fp32 [..., 2] -> complex64 [...]
Value view_as_real(Value x);

// ---- copies ----
Value clone(Value x);                          // preserve_format
Value clone_contiguous(Value x);               // contiguous_format
Value contiguous(Value x);                     // itself when it is contiguous
Value cast(Value x, DType dtype);              // itself when it has the dtype
Value cat(std::vector<Value> parts, int dim);  // of the widest dtype
Value stack(std::vector<Value> parts, int dim);
Value repeat(Value x, Sizes times);
Value pad(Value x, int64_t before, int64_t after);  // the last dim

// ---- making tensors ----
Value empty(Recorder& r, SizeList sizes, DType dtype);
Value empty(Recorder& r, const Layout& layout, DType dtype);
Value zeros(Recorder& r, SizeList sizes, DType dtype);
Value zeros(Recorder& r, const Layout& layout, DType dtype);
Value ones(Recorder& r, SizeList sizes, DType dtype);
Value full(Recorder& r, SizeList sizes, DType dtype);
Value scalar_tensor(Recorder& r, DType dtype);
Value from_host(Recorder& r, SizeList sizes, DType dtype);  // numbers of the host, copied to the device
Value arange(Recorder& r, int64_t count, DType dtype = DType::kInt64);
Value empty_like(Value x);
Value zeros_like(Value x);
Value ones_like(Value x);
Value full_like(Value x);

// ---- pointwise ----
DType result_type(const Value& a, const Value& b);  // at::result_type
Value unary(OpKind kind, Value x);
Value unary_to(OpKind kind, Value x, DType dtype);  // comparisons and the like
Value binary(OpKind kind, Value a, Value b);
Value with_scalar(OpKind kind, Value x, double scalar);  // kAddScalar, kMulScalar, kDivScalar, kPow ...
Value polar(Value length, Value angle);                  // fp32 -> complex64
Value ternary(OpKind kind, Value a, Value b, Value c, DType dtype);
inline Value add(Value a, Value b) { return binary(OpKind::kAdd, std::move(a), std::move(b)); }
inline Value sub(Value a, Value b) { return binary(OpKind::kSub, std::move(a), std::move(b)); }
inline Value mul(Value a, Value b) { return binary(OpKind::kMul, std::move(a), std::move(b)); }
inline Value div(Value a, Value b) { return binary(OpKind::kDiv, std::move(a), std::move(b)); }
inline Value add(Value a, double s) { return with_scalar(OpKind::kAddScalar, std::move(a), s); }
inline Value mul(Value a, double s) { return with_scalar(OpKind::kMulScalar, std::move(a), s); }
inline Value div(Value a, double s) { return with_scalar(OpKind::kDivScalar, std::move(a), s); }
inline Value pow(Value a, double s) { return with_scalar(OpKind::kPow, std::move(a), s); }
inline Value neg(Value x) { return unary(OpKind::kNeg, std::move(x)); }
inline Value silu(Value x) { return unary(OpKind::kSilu, std::move(x)); }
inline Value gelu(Value x) { return unary(OpKind::kGelu, std::move(x)); }
inline Value tanh(Value x) { return unary(OpKind::kTanh, std::move(x)); }
inline Value sigmoid(Value x) { return unary(OpKind::kSigmoid, std::move(x)); }
inline Value relu(Value x) { return unary(OpKind::kRelu, std::move(x)); }
inline Value clamp(Value x) { return unary(OpKind::kClamp, std::move(x)); }                 // one bound
inline Value clamp_between(Value x) { return unary(OpKind::kClampBetween, std::move(x)); }  // two bounds
inline Value compare(Value x) { return unary_to(OpKind::kCompare, std::move(x), DType::kBool); }
Value compare(Value a, Value b);
Value logical_and(Value a, Value b);
Value logical_and_(Value a, Value b);
Value where(Value condition, Value a, Value b);
Value masked_fill(Value x, Value mask);
Value copy_(Value destination, Value source);
Value add_(Value x, Value y);
Value mul_(Value x, double scalar);
Value div_(Value x, Value y);
Value div_(Value x, double scalar);
// x[..., start : start + source.size(dim), ...] = source
Value copy_into_slice_(Value x, Value source, int dim, int64_t start);
Value masked_fill_(Value x, Value mask);
Value zero_(Value x);
// The result of a torch.autograd.Function (bloom's GeLUFunction): x itself, computed from `input` without a
// graph.
Value gelu_function(Value x, Value input);

// ---- reductions ----
Value sum(Value x, std::initializer_list<int> dims, bool keep_dims);
Value sum_mask(Value x, unsigned mask, bool keep_dims, std::optional<DType> dtype = std::nullopt);
Value sum_to(Value x, Sizes sizes);  // at::sum_to: sums what was broadcast, then views; itself when equal
Value mean(Value x, std::initializer_list<int> dims, bool keep_dims);
Value all(Value x);
Value cumsum(Value x, int dim, DType dtype);
std::vector<Value> max(Value x, int dim, bool keep_dims = false);  // values, indices
Value minimum(Value x);                                            // of all elements
Value argmax(Value x, int dim);
std::vector<Value> topk(Value x, int64_t k, int dim);  // values, indices
std::vector<Value> sort(Value x, int dim);             // values, indices
Value softmax(Value x, int dim,
              std::optional<DType> dtype = std::nullopt);  // dtype: cast first, fused for fp16 to fp32
Value log_softmax(Value x, int dim, std::optional<DType> dtype = std::nullopt);
Value safe_softmax(Value x, int dim);  // rows that are all minus infinity give zeros

// ---- indexing ----
Value embedding(Value weight, Value ids);
Value gather(Value x, int dim, Value index);
// Without a source a number is put.
Value scatter(Value x, int dim, Value index, Value source = {});
Value scatter_(Value x, int dim, Value index, Value source = {});
Value scatter_add(Value x, int dim, Value index, Value source);
// Advanced indexing of the dims from `first_dim` on: x[:, ..., indices...].
Value index(Value x, std::vector<Value> indices, int first_dim = 0);
Value index_put(Value x, std::vector<Value> indices, Value source, int first_dim = 0);
Value index_put_(Value x, std::vector<Value> indices, Value source);
Value histogram(Value x, int64_t bins);

// ---- neural network ----
Value mm(Value a, Value b);  // [n, k] x [k, m]
Value addmm(Value bias, Value a, Value b);
Value bmm(Value a, Value b);                             // [g, n, k] x [g, k, m]
Value baddbmm(Value c, Value a, Value b, double alpha);  // c + alpha * (a x b)
Value matmul(Value a, Value b);                          // at::matmul: folds or expands into mm or bmm
Value linear(Value x, Value weight, Value bias);         // weight [out, in]; bias may be undefined
Value grouped_mm(Value a, Value b, Value offsets);
Value dropout(Value x, double probability);             // itself when probability is 0
Value layer_norm(Value x, Value weight, Value bias);    // over the last dim; weight and bias may be undefined
Value fused_rms_norm(Value x, Value weight);            // nn.RMSNorm on a GPU, over the last dim
Value nll_loss(Value log_probabilities, Value target);  // mean over targets; a scalar
// The same of logits [n, vocab], compiled: no log-probabilities are made; a scalar.
Value fused_cross_entropy(Value logits, Value target);
// Sums a partial result over the ranks of the tensor-parallel group into a new tensor.
Value functional_all_reduce(Value x);
// The same tensor; its gradient is partial and summed over the ranks.
Value with_partial_gradient(Value x);
// q [b, heads, s, d], k and v [b, kv heads, s, d]; results are transposed views of [b, s, heads, d].
Value flash_attention(Value q, Value k, Value v, bool is_causal, double dropout);
Value efficient_attention(Value q, Value k, Value v, Value mask, bool is_causal, double dropout);
// flash_attn_func of the package flash_attn: q [b, s, heads, d], k and v [b, s, kv heads, d]; result as q.
Value flash_attention_package(Value q, Value k, Value v, bool is_causal, double dropout);
Value cudnn_attention(Value q, Value k, Value v, bool is_causal, double dropout);

// ---- kernels of the native runtime (ops_native.cc): no operators of ATen, each does in one pass what eager
// modelling code does in several ----
Value rms_norm(Value x, Value weight, double epsilon);  // over the last dim, computed in fp32
Value layer_norm(Value x, Value weight, Value bias, double epsilon);
struct RotaryTable {
  Value cos, sin;  // fp32 [s, d / 2]
};
// x [b, s, heads, d]: the halves of each head turned by the position's angles; sign -1 turns back.
Value rotary(Value x, const RotaryTable& table, double sign = 1);
Value swiglu(Value gate, Value up);  // silu(gate) * up
Value gelu_tanh(Value x);
// q [b, heads, s, d], k and v [b, kv heads, s, d]: ATen's kernel for CPUs.
Value cpu_flash_attention(Value q, Value k, Value v, bool is_causal);
// Sum over the rows of scale * -log softmax(logits)[label]; logits [n, vocab], labels int64 [n]. An fp32
// scalar. Its gradient overwrites the logits, which nothing may read after it.
Value cross_entropy(Value logits, Value labels, double scale);

}  // namespace plimsoll::ops
