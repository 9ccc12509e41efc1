// The closed set of ops a Program is made of. For everything built on PyTorch they have ATen's granularity
// and names. The op table (op_table.h) says of each kind what it keeps for the backward, what its backward
// is, and what it costs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "base/dtype.h"

namespace plimsoll {

// kind, ATen name, class: kView shares its input's storage, kPointwise works element by element, kInPlace
// writes its first input, kOther has a rule of its own, kFramework is no ATen operator (a collective, a
// boundary of a module).
#define PLIMSOLL_OPS(X)                                                                                 \
  X(kView, "view.default", kView)                                                                       \
  X(kUnsafeView, "_unsafe_view.default", kView)                                                         \
  X(kTranspose, "transpose.int", kView)                                                                 \
  X(kPermute, "permute.default", kView)                                                                 \
  X(kExpand, "expand.default", kView)                                                                   \
  X(kSlice, "slice.Tensor", kView)                                                                      \
  X(kSelect, "select.int", kView)                                                                       \
  X(kUnsqueeze, "unsqueeze.default", kView)                                                             \
  X(kSqueeze, "squeeze.dim", kView)                                                                     \
  X(kSplit, "split.Tensor", kView)                                                                      \
  X(kUnbind, "unbind.int", kView)                                                                       \
  X(kDetach, "detach.default", kView)                                                                   \
  X(kAlias, "alias.default", kView)                                                                     \
  X(kViewAsComplex, "view_as_complex.default", kView)                                                   \
  X(kViewAsReal, "view_as_real.default", kView)                                                         \
  X(kClone, "clone.default", kPointwise)                                                                \
  X(kCloneForBackward, "clone.default", kPointwise)                                                     \
  X(kCast, "_to_copy.default", kPointwise)                                                              \
  X(kAdd, "add.Tensor", kPointwise)                                                                     \
  X(kAddScalar, "add.Tensor", kPointwise)                                                               \
  X(kSub, "sub.Tensor", kPointwise)                                                                     \
  X(kRsub, "rsub.Scalar", kPointwise)                                                                   \
  X(kMul, "mul.Tensor", kPointwise)                                                                     \
  X(kMulScalar, "mul.Tensor", kPointwise)                                                               \
  X(kDiv, "div.Tensor", kPointwise)                                                                     \
  X(kDivScalar, "div.Tensor", kPointwise)                                                               \
  X(kScale, "mul.Scalar", kPointwise)                                                                   \
  X(kDivide, "div.Scalar", kPointwise)                                                                  \
  X(kNeg, "neg.default", kPointwise)                                                                    \
  X(kPow, "pow.Tensor_Scalar", kPointwise)                                                              \
  X(kPowTensor, "pow.Tensor_Tensor", kPointwise)                                                        \
  X(kScalarPow, "pow.Scalar", kPointwise)                                                               \
  X(kRsqrt, "rsqrt.default", kPointwise)                                                                \
  X(kSqrt, "sqrt.default", kPointwise)                                                                  \
  X(kReciprocal, "reciprocal.default", kPointwise)                                                      \
  X(kSin, "sin.default", kPointwise)                                                                    \
  X(kCos, "cos.default", kPointwise)                                                                    \
  X(kExp, "exp.default", kPointwise)                                                                    \
  X(kAbs, "abs.default", kPointwise)                                                                    \
  X(kFloor, "floor.default", kPointwise)                                                                \
  X(kLog, "log.default", kPointwise)                                                                    \
  X(kLog1p, "log1p.default", kPointwise)                                                                \
  X(kCeil, "ceil.default", kPointwise)                                                                  \
  X(kTanh, "tanh.default", kPointwise)                                                                  \
  X(kLerp, "lerp.Scalar", kPointwise)                                                                   \
  X(kSigmoid, "sigmoid.default", kPointwise)                                                            \
  X(kSilu, "silu.default", kPointwise)                                                                  \
  X(kGelu, "gelu.default", kPointwise)                                                                  \
  X(kRelu, "relu.default", kPointwise)                                                                  \
  X(kClamp, "clamp.default", kPointwise)                                                                \
  X(kClampBetween, "clamp.default", kPointwise)                                                         \
  X(kCompare, "ne.Scalar", kPointwise)                                                                  \
  X(kCompareTensor, "le.Tensor", kPointwise)                                                            \
  X(kLogicalNot, "bitwise_not.default", kPointwise)                                                     \
  X(kLogicalAnd, "bitwise_and.Tensor", kPointwise)                                                      \
  X(kFloorDivide, "floor_divide.default", kPointwise)                                                   \
  X(kWhere, "where.self", kPointwise)                                                                   \
  X(kMaskedFill, "masked_fill.Scalar", kPointwise)                                                      \
  X(kTril, "tril.default", kPointwise)                                                                  \
  X(kPolar, "polar.default", kPointwise)                                                                \
  X(kOnesLike, "ones_like.default", kPointwise)                                                         \
  X(kZerosLike, "zeros_like.default", kPointwise)                                                       \
  X(kFullLike, "full_like.default", kPointwise)                                                         \
  X(kEmptyLike, "empty_like.default", kPointwise)                                                       \
  X(kEmpty, "empty.memory_format", kOther)                                                              \
  X(kZeros, "zeros.default", kOther)                                                                    \
  X(kOnes, "ones.default", kOther)                                                                      \
  X(kFull, "full.default", kOther)                                                                      \
  X(kScalarTensor, "scalar_tensor.default", kOther)                                                     \
  X(kArange, "arange.default", kOther)                                                                  \
  X(kRepeat, "repeat.default", kOther)                                                                  \
  X(kCat, "cat.default", kOther)                                                                        \
  X(kStack, "stack.default", kOther)                                                                    \
  X(kPad, "constant_pad_nd.default", kOther)                                                            \
  X(kSum, "sum.dim_IntList", kOther)                                                                    \
  X(kMean, "mean.dim", kOther)                                                                          \
  X(kMin, "min.default", kOther)                                                                        \
  X(kMax, "max.dim", kOther)                                                                            \
  X(kArgmax, "argmax.default", kOther)                                                                  \
  X(kAll, "all.default", kOther)                                                                        \
  X(kCumsum, "cumsum.default", kOther)                                                                  \
  X(kTopk, "topk.default", kOther)                                                                      \
  X(kSort, "sort.default", kOther)                                                                      \
  X(kHistogram, "histc.default", kOther)                                                                \
  X(kGather, "gather.default", kOther)                                                                  \
  X(kScatter, "scatter.src", kOther)                                                                    \
  X(kScatterAdd, "scatter_add.default", kOther)                                                         \
  X(kIndex, "index.Tensor", kOther)                                                                     \
  X(kIndexPut, "index_put.default", kOther)                                                             \
  X(kSoftmax, "_softmax.default", kOther)                                                               \
  X(kSafeSoftmax, "_safe_softmax.default", kOther)                                                      \
  X(kLogSoftmax, "_log_softmax.default", kOther)                                                        \
  X(kNllLoss, "nll_loss_forward.default", kOther)                                                       \
  X(kEmbedding, "embedding.default", kOther)                                                            \
  X(kDropout, "native_dropout.default", kOther)                                                         \
  X(kLayerNorm, "native_layer_norm.default", kOther)                                                    \
  X(kFusedRmsNorm, "_fused_rms_norm.default", kOther)                                                   \
  X(kFusedCrossEntropy, "triton::cross_entropy", kOther)                                                \
  X(kMm, "mm.default", kOther)                                                                          \
  X(kAddmm, "addmm.default", kOther)                                                                    \
  X(kBmm, "bmm.default", kOther)                                                                        \
  X(kBaddbmm, "baddbmm.default", kOther)                                                                \
  X(kGroupedMm, "_grouped_mm.default", kOther)                                                          \
  X(kFlashAttentionPackage, "flash_attn::_flash_attn_forward", kOther)                                  \
  X(kFlashAttention, "_scaled_dot_product_flash_attention.default", kOther)                             \
  X(kEfficientAttention, "_scaled_dot_product_efficient_attention.default", kOther)                     \
  X(kCudnnAttention, "_scaled_dot_product_cudnn_attention.default", kOther)                             \
  X(kAddInPlace, "add_.Tensor", kInPlace)                                                               \
  X(kMulInPlace, "mul_.Tensor", kInPlace)                                                               \
  X(kDivInPlace, "div_.Tensor", kInPlace)                                                               \
  X(kLogicalAndInPlace, "logical_and_.default", kInPlace)                                               \
  X(kDivScalarInPlace, "div_.Tensor", kInPlace)                                                         \
  X(kCopyInPlace, "copy_.default", kInPlace)                                                            \
  X(kCopyIntoSlice, "copy_.default", kInPlace)                                                          \
  X(kMaskedFillInPlace, "masked_fill_.Scalar", kInPlace)                                                \
  X(kGeluFunction, "GeLUFunction", kInPlace)                                                            \
  X(kFillInPlace, "fill_.Scalar", kInPlace)                                                             \
  X(kZeroInPlace, "zero_.default", kInPlace)                                                            \
  X(kIndexPutInPlace, "index_put_.default", kInPlace)                                                   \
  X(kScatterInPlace, "scatter_.src", kInPlace)                                                          \
  X(kSliceBackward, "slice_backward.default", kOther)                                                   \
  X(kSelectBackward, "select_backward.default", kOther)                                                 \
  X(kSiluBackward, "silu_backward.default", kPointwise)                                                 \
  X(kGeluBackward, "gelu_backward.default", kPointwise)                                                 \
  X(kSigmoidBackward, "sigmoid_backward.default", kPointwise)                                           \
  X(kTanhBackward, "tanh_backward.default", kPointwise)                                                 \
  X(kThresholdBackward, "threshold_backward.default", kPointwise)                                       \
  X(kDropoutBackward, "native_dropout_backward.default", kPointwise)                                    \
  X(kSoftmaxBackward, "_softmax_backward_data.default", kPointwise)                                     \
  X(kLogSoftmaxBackward, "_log_softmax_backward_data.default", kPointwise)                              \
  X(kNllLossBackward, "nll_loss_backward.default", kOther)                                              \
  X(kEmbeddingBackward, "embedding_dense_backward.default", kOther)                                     \
  X(kLayerNormBackward, "native_layer_norm_backward.default", kOther)                                   \
  X(kFusedRmsNormBackward, "_fused_rms_norm_backward.default", kOther)                                  \
  X(kFusedCrossEntropyBackward, "triton::cross_entropy_backward", kOther)                               \
  X(kFlashAttentionPackageBackward, "flash_attn::_flash_attn_backward", kOther)                         \
  X(kFlashAttentionBackward, "_scaled_dot_product_flash_attention_backward.default", kOther)            \
  X(kEfficientAttentionBackward, "_scaled_dot_product_efficient_attention_backward.default", kOther)    \
  X(kCudnnAttentionBackward, "_scaled_dot_product_cudnn_attention_backward.default", kOther)            \
  X(kForeachNorm, "_foreach_norm.Scalar", kOther)                                                       \
  X(kVectorNorm, "linalg_vector_norm.default", kOther)                                                  \
  X(kForeachSqrt, "_foreach_sqrt.default", kOther)                                                      \
  X(kForeachUpdate, "_foreach_update", kInPlace)                                                        \
  X(kFusedAdamw, "_fused_adamw_", kInPlace)                                                             \
  X(kBlockwiseAdam8bit, "optimizer_update_8bit_blockwise", kInPlace)                                    \
  X(kUnscale, "_amp_foreach_non_finite_check_and_unscale_", kInPlace)                                   \
  X(kUpdateScale, "_amp_update_scale_", kInPlace)                                                       \
  X(kAllReduce, "all_reduce", kFramework)                                                               \
  X(kFunctionalAllReduce, "_c10d_functional::all_reduce.default", kOther)                               \
  X(kPartialGradient, "copy_to_tensor_parallel_region", kView)                                          \
  X(kAllGather, "all_gather_into_tensor", kFramework)                                                   \
  X(kReduceScatter, "reduce_scatter_tensor", kFramework)                                                \
  X(kBroadcast, "broadcast", kFramework)                                                                \
  X(kCopyToHost, "copy_to_host", kFramework)                                                            \
  X(kCopyToDevice, "copy_to_device", kFramework)                                                        \
  X(kReadFromDisk, "read_from_disk", kFramework)                                                        \
  X(kWriteToDisk, "write_to_disk", kFramework)                                                          \
  X(kResize, "storage.resize_", kFramework)                                                             \
  X(kMmOut, "mm.out", kInPlace)                                                                         \
  X(kAddmmOut, "addmm.out", kInPlace)                                                                   \
  X(kLigerCrossEntropy, "liger_cross_entropy_kernel", kInPlace)                                         \
  X(kFusedLinearCrossEntropy, "LigerFusedLinearCrossEntropyFunction", kInPlace)                         \
  X(kRmsNorm, "plimsoll::rms_norm", kOther)                                                             \
  X(kRotaryTable, "plimsoll::rotary_table", kFramework)                                                 \
  X(kRotary, "plimsoll::rotary", kOther)                                                                \
  X(kSwiglu, "plimsoll::swiglu", kOther)                                                                \
  X(kGeluTanh, "gelu.tanh", kPointwise)                                                                 \
  X(kCpuFlashAttention, "_scaled_dot_product_flash_attention_for_cpu.default", kOther)                  \
  X(kCrossEntropy, "plimsoll::cross_entropy", kOther)                                                   \
  X(kRmsNormBackward, "plimsoll::rms_norm_backward", kOther)                                            \
  X(kSwigluBackward, "plimsoll::swiglu_backward", kOther)                                               \
  X(kGeluTanhBackward, "gelu_backward.tanh", kPointwise)                                                \
  X(kCpuFlashAttentionBackward, "_scaled_dot_product_flash_attention_for_cpu_backward.default", kOther) \
  X(kCrossEntropyBackward, "plimsoll::cross_entropy_backward", kInPlace)                                \
  X(kLoadWeights, "plimsoll::load_weights", kFramework)                                                 \
  X(kSquaredNorm, "plimsoll::squared_norm", kFramework)                                                 \
  X(kCheckNorm, "plimsoll::check_norm", kFramework)                                                     \
  X(kClipByNorm, "plimsoll::clip_by_norm", kFramework)                                                  \
  X(kAdamwUpdate, "plimsoll::adamw_update", kFramework)                                                 \
  X(kSgdUpdate, "plimsoll::sgd_update", kFramework)                                                     \
  X(kSgdMomentumUpdate, "plimsoll::sgd_momentum_update", kFramework)                                    \
  X(kLionUpdate, "plimsoll::lion_update", kFramework)                                                   \
  X(kAdafactorStatistics, "plimsoll::adafactor_statistics", kFramework)                                 \
  X(kAdafactorMoments, "plimsoll::adafactor_moments", kFramework)                                       \
  X(kAdafactorNorm, "plimsoll::adafactor_norm", kFramework)                                             \
  X(kAdafactorUpdate, "plimsoll::adafactor_update", kFramework)                                         \
  X(kSubInPlace, "sub_.Tensor", kInPlace)                                                               \
  X(kExpInPlace, "exp.out", kInPlace)                                                                   \
  X(kAllReduceInPlace, "c10d::allreduce_", kInPlace)                                                    \
  X(kCountNonzero, "count_nonzero.default", kOther)                                                     \
  X(kLinearFunction, "LinearWithGradAccumulationAndAsyncCommunication", kInPlace)                       \
  X(kReduceFunction, "_ReduceFromModelParallelRegion", kInPlace)                                        \
  X(kVocabParallelCrossEntropy, "_VocabParallelCrossEntropy", kInPlace)                                 \
  X(kFusedLayerNorm, "fused_layer_norm_affine", kOther)                                                 \
  X(kFusedLayerNormBackward, "fused_layer_norm_affine_backward", kOther)                                \
  X(kFusedSoftmax, "scaled_masked_softmax", kPointwise)                                                 \
  X(kFusedSoftmaxBackward, "scaled_masked_softmax_backward", kInPlace)                                  \
  X(kFusedBiasAdd, "bias_add_in_fused_kernel", kInPlace)                                                \
  X(kDropoutAdd, "bias_dropout_add_fused", kOther)                                                      \
  X(kBiasGelu, "bias_gelu", kOther)                                                                     \
  X(kBiasGeluBackward, "bias_gelu_back", kOther)                                                        \
  X(kBiasSwiglu, "bias_swiglu", kOther)                                                                 \
  X(kBiasSwigluBackward, "bias_swiglu_back", kOther)                                                    \
  X(kTeNorm, "tex::layernorm_fwd", kOther)                                                              \
  X(kTeNormBackward, "tex::layernorm_bwd", kOther)                                                      \
  X(kTeGemm, "tex::generic_gemm", kOther)                                                               \
  X(kTeLinear, "te::_Linear", kInPlace)                                                                 \
  X(kTeNormLinear, "te::_LayerNormLinear", kInPlace)                                                    \
  X(kTeRotary, "tex::fused_rope_forward", kOther)                                                       \
  X(kGatherSequence, "all_gather_along_first_dim", kOther)                                              \
  X(kReduceScatterSequence, "reduce_scatter_along_first_dim", kOther)                                   \
  X(kReduceScatterFunction, "_ReduceScatterToSequenceParallelRegion", kInPlace)                         \
  X(kGatherFunction, "_GatherFromSequenceParallelRegion", kInPlace)                                     \
  X(kScatterFunction, "_ScatterToSequenceParallelRegion", kInPlace)                                     \
  X(kTeSoftmax, "te_softmax::scaled_masked_softmax_fwd", kPointwise)                                    \
  X(kTeSoftmaxBackward, "te_softmax::scaled_masked_softmax_bwd", kPointwise)                            \
  X(kTeFlashAttention, "flash_attn::_flash_attn_forward", kOther)                                       \
  X(kTeFlashAttentionBackward, "flash_attn::_flash_attn_backward", kOther)                              \
  X(kIndexSelect, "index_select.default", kOther)                                                       \
  X(kIndexAdd, "index_add.default", kOther)                                                             \
  X(kIndexAddInPlace, "index_add_.default", kInPlace)                                                   \
  X(kScatterAddInPlace, "scatter_add_.default", kInPlace)                                               \
  X(kLogSumExp, "logsumexp.default", kOther)                                                            \
  X(kMaskedSelect, "masked_select.default", kOther)                                                     \
  X(kMaskedScatter, "masked_scatter.default", kOther)                                                   \
  X(kRemainder, "remainder.Scalar", kPointwise)                                                         \
  X(kRouterGating, "RouterGatingLinearFunction", kInPlace)                                              \
  X(kAuxiliaryLoss, "MoEAuxLossAutoScaler", kInPlace)                                                   \
  X(kAllToAll, "all_to_all_single", kOther)                                                             \
  X(kAllToAllFunction, "_AllToAll", kInPlace)                                                           \
  X(kWeightedSwiglu, "weighted_swiglu", kOther)                                                         \
  X(kWeightedSwigluBackward, "weighted_swiglu_back", kOther)                                            \
  X(kTeGroupedGemm, "tex::te_general_grouped_gemm", kOther)                                             \
  X(kTeGroupedLinear, "te::_GroupedLinear", kInPlace)                                                   \
  X(kTePermute, "te_moe::permute_mask_map_fwd", kOther)                                                 \
  X(kTePermuteBackward, "te_moe::permute_mask_map_bwd", kOther)                                         \
  X(kTeUnpermute, "te_moe::unpermute_mask_map_fwd", kOther)                                             \
  X(kTeUnpermuteBackward, "te_moe::unpermute_mask_map_bwd", kOther)                                     \
  X(kTeSortChunks, "te_moe::chunk_sort_fwd", kOther)                                                    \
  X(kTeSortChunksBackward, "te_moe::chunk_sort_bwd", kOther)                                            \
  X(kLatentRopeQuery, "fused_apply_mla_rope_for_q", kInPlace)                                           \
  X(kLatentRopeKeyValue, "fused_apply_mla_rope_for_kv", kOther)                                         \
  X(kLatentRopeKeyValueBackward, "fused_apply_mla_rope_for_kv_backward", kOther)                        \
  X(kBoundary, "boundary", kView)

enum class OpKind : uint8_t {
#define X(kind, name, cls) kind,
  PLIMSOLL_OPS(X)
#undef X
};

enum class OpClass : uint8_t { kView, kPointwise, kInPlace, kOther, kFramework };

std::string_view name_of(OpKind kind);       // "kMul" without the k: "Mul"; unique, used by the text form
std::string_view aten_name_of(OpKind kind);  // "aten::mul.Tensor"
OpClass class_of(OpKind kind);
// Results are the first input's storage: views, and writes in place.
inline bool shares_input_storage(OpKind kind) {
  return class_of(kind) == OpClass::kView || class_of(kind) == OpClass::kInPlace;
}
std::optional<OpKind> op_kind_from_name(std::string_view name);
std::span<const OpKind> all_op_kinds();

// What an op needs besides its tensors. Results' layouts and dtypes stand in the program, so sizes aren't
// repeated here.
struct DimAttr {  // reductions, softmax, cat, gather, topk: one dim or several (bit mask), dims kept or not
  uint32_t mask = 0;
  bool keep_dims = false;
  friend bool operator==(const DimAttr&, const DimAttr&) = default;
};
struct DimsAttr {  // transpose, permute
  std::array<int8_t, 6> dims{};
  friend bool operator==(const DimsAttr&, const DimsAttr&) = default;
};
// slice, select, narrow: start and step in elements of the dim. Adafactor's ops: of the whole tensor, flat,
// the element with which the piece that they read begins.
struct SliceAttr {
  int dim = 0;
  int64_t start = 0;
  int64_t step = 1;
  friend bool operator==(const SliceAttr&, const SliceAttr&) = default;
};
struct ScalarAttr {  // the operand that is a number; also dropout's probability and a norm's epsilon
  double value = 0;
  friend bool operator==(const ScalarAttr&, const ScalarAttr&) = default;
};
struct AttentionAttr {
  bool is_causal = true;
  double dropout = 0;
  friend bool operator==(const AttentionAttr&, const AttentionAttr&) = default;
};
struct CollectiveAttr {
  uint32_t group = 0;  // index into Program::groups
  friend bool operator==(const CollectiveAttr&, const CollectiveAttr&) = default;
};
struct FusedAttr {  // which operands a fused module has, and what its kernels' scratch depends on
  bool has_norm_bias = false, has_bias = false;
  bool sums_input_gradient = false;   // over the tensor-parallel group
  bool adds_weight_gradient = false;  // to the gradient buffer, in the product's own kernel
  int64_t multiprocessors = 0;        // of the GPU
  // Sequence parallelism: ranks that hold parts of a linear's input (gathered before the product), or of its
  // result (reduce-scattered behind it).
  int64_t input_ranks = 1, result_ranks = 1;
  friend bool operator==(const FusedAttr&, const FusedAttr&) = default;
};
using Attributes = std::variant<std::monostate, DimAttr, DimsAttr, SliceAttr, ScalarAttr, AttentionAttr,
                                CollectiveAttr, FusedAttr>;

}  // namespace plimsoll
