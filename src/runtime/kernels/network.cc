// Matrix products, embeddings, norms with statistics, attention: operators of ATen.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "runtime/kernels/kernel.h"

namespace plimsoll::runtime {
namespace {

void mm(KernelCall& call) {
  at::Tensor out = call.output(0);
  at::mm_out(out, call.input(0), call.input(1));
}
void addmm(KernelCall& call) {
  at::Tensor out = call.output(0);
  at::addmm_out(out, call.input(0), call.input(1), call.input(2));
}
// addend, left, right: the addend becomes the sum.
void addmm_in_place(KernelCall& call) {
  at::Tensor sum = call.input(0);
  at::addmm_out(sum, sum, call.input(1), call.input(2));
}

void embedding(KernelCall& call) {
  const at::Tensor weight = call.input(0), ids = call.input(1);
  at::Tensor rows = call.output(0).view({-1, weight.size(1)});
  at::index_select_out(rows, weight, 0, ids.view({-1}));
}
void embedding_backward(KernelCall& call) {
  const int64_t rows = call.output_info(0).layout.size(0);
  call.give(0, at::embedding_dense_backward(call.input(0), call.input(1), rows, /*padding_idx=*/-1,
                                            /*scale_grad_by_freq=*/false));
}

void layer_norm(KernelCall& call) {
  const at::Tensor x = call.input(0);
  const auto [out, mean, deviation] = at::native_layer_norm(x, {x.size(-1)}, call.input(1), call.input(2),
                                                            call.attributes<ScalarAttr>().value);
  call.give(0, out);
  call.give(1, mean);
  call.give(2, deviation);
}
// gradient, x, mean, 1 / deviation, weight, bias
void layer_norm_backward(KernelCall& call) {
  const at::Tensor x = call.input(1);
  const auto [of_x, of_weight, of_bias] =
      at::native_layer_norm_backward(call.input(0), x, {x.size(-1)}, call.input(2), call.input(3),
                                     call.input(4), call.input(5), {true, true, true});
  call.give(0, of_x);
  call.give(1, of_weight);
  call.give(2, of_bias);
}

void attention(KernelCall& call) {
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(
      call.input(0), call.input(1), call.input(2), 0.0, call.attributes<AttentionAttr>().is_causal);
  call.give(0, out);
  call.give(1, lse);
}
// gradient, q, k, v, result, log-sum-exp
void attention_backward(KernelCall& call) {
  const auto [of_q, of_k, of_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      call.input(0), call.input(1), call.input(2), call.input(3), call.input(4), call.input(5), 0.0,
      call.attributes<AttentionAttr>().is_causal);
  call.give(0, of_q);
  call.give(1, of_k);
  call.give(2, of_v);
}

}  // namespace

void add_network_kernels(SetKernel set) {
  set(OpKind::kMm, {mm});
  set(OpKind::kAddmm, {addmm});
  set(OpKind::kAddmmOut, {addmm_in_place});
  set(OpKind::kEmbedding, {embedding});
  set(OpKind::kEmbeddingBackward, {.run = embedding_backward, .adopts = true});
  set(OpKind::kLayerNorm, {.run = layer_norm, .adopts = true});
  set(OpKind::kLayerNormBackward, {.run = layer_norm_backward, .adopts = true});
  set(OpKind::kCpuFlashAttention, {.run = attention, .adopts = true});
  set(OpKind::kCpuFlashAttentionBackward, {.run = attention_backward, .adopts = true});
}

}  // namespace plimsoll::runtime
