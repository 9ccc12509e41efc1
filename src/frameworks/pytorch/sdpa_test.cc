// Which kernel scaled_dot_product_attention takes. Expectations restate select_sdp_backend and the checks of
// sdp_utils.cpp, PyTorch 2.13, compute capability 9.0.
#include "frameworks/pytorch/sdpa.h"

#include <gtest/gtest.h>

#include "frameworks/pytorch/small_model.h"

namespace plimsoll::pytorch {
namespace {

struct Call {
  DType dtype = DType::kBFloat16;
  int64_t kv_heads = 4, head_dim = 64, value_head_dim = 64;
  bool has_mask = false;
  SdpaCall options;
};

// The first op of an attention kernel, or the first product.
OpKind kernel_of(const Call& call) {
  const Architecture architecture = small("llama");
  Program program;
  Recorder recorder(program, Recorder::Mode::kForward);
  Eager eager(recorder, architecture, std::vector<bool>(architecture.parameters.size(), true), {});
  const auto tensor = [&](std::initializer_list<int64_t> sizes, DType dtype) {
    return recorder.persistent(Layout::contiguous(sizes), dtype, Category::kInput, {}, is_floating(dtype));
  };
  const Value q = tensor({1, 4, 32, call.head_dim}, call.dtype);
  const Value k = tensor({1, call.kv_heads, 32, call.head_dim}, call.dtype);
  const Value v = tensor({1, call.kv_heads, 32, call.value_head_dim}, call.dtype);
  Value mask;
  if (call.has_mask) mask = tensor({1, 1, 32, 32}, DType::kBool);
  const Value out = scaled_dot_product_attention(eager, call.options, q, k, v, mask);
  EXPECT_EQ(out.size(-1), call.value_head_dim);
  recorder.finish();
  for (const Op& op : program.ops)
    for (OpKind kind :
         {OpKind::kFlashAttention, OpKind::kEfficientAttention, OpKind::kCudnnAttention, OpKind::kBmm})
      if (op.kind == kind) return kind;
  return OpKind::kView;
}

TEST(Sdpa, FlashComesFirstInHalfPrecision) {
  EXPECT_EQ(kernel_of({}), OpKind::kFlashAttention);
  EXPECT_EQ(kernel_of({.dtype = DType::kFloat16}), OpKind::kFlashAttention);
  EXPECT_EQ(kernel_of({.dtype = DType::kFloat32}), OpKind::kEfficientAttention);
  EXPECT_EQ(kernel_of({.dtype = DType::kFloat64}), OpKind::kBmm);
}

TEST(Sdpa, AMaskOrUnlikeHeadsGoToTheEfficientKernel) {
  EXPECT_EQ(kernel_of({.has_mask = true}), OpKind::kEfficientAttention);
  EXPECT_EQ(kernel_of({.head_dim = 64, .value_head_dim = 32}), OpKind::kEfficientAttention);
  EXPECT_EQ(kernel_of({.head_dim = 264, .value_head_dim = 264}), OpKind::kEfficientAttention);  // above 256
}

TEST(Sdpa, OnlyFlashTakesGroupedHeads) {
  EXPECT_EQ(kernel_of({.kv_heads = 2, .options = {.enable_gqa = true}}), OpKind::kFlashAttention);
  EXPECT_EQ(kernel_of({.dtype = DType::kFloat32, .kv_heads = 2, .options = {.enable_gqa = true}}),
            OpKind::kBmm);
}

TEST(Sdpa, AnOddHeadSizeIsPaddedForFlashAndRefusedByTheEfficientKernel) {
  EXPECT_EQ(kernel_of({.head_dim = 60, .value_head_dim = 60}), OpKind::kFlashAttention);
  EXPECT_EQ(kernel_of({.head_dim = 60, .value_head_dim = 60, .has_mask = true}), OpKind::kBmm);
}

TEST(Sdpa, AJobMayAllowOneBackendOnly) {
  const auto with = [](SdpaBackend backend, DType dtype = DType::kBFloat16) {
    return kernel_of({.dtype = dtype, .options = {.backend = backend}});
  };
  EXPECT_EQ(with(SdpaBackend::kEfficient), OpKind::kEfficientAttention);
  EXPECT_EQ(with(SdpaBackend::kMath), OpKind::kBmm);
  EXPECT_EQ(with(SdpaBackend::kCudnn), OpKind::kCudnnAttention);
  EXPECT_EQ(with(SdpaBackend::kCudnnFirst), OpKind::kCudnnAttention);
  EXPECT_EQ(with(SdpaBackend::kCudnnFirst, DType::kFloat32), OpKind::kEfficientAttention);
  EXPECT_EQ(with(SdpaBackend::kFlash, DType::kFloat32), OpKind::kBmm);
}

}  // namespace
}  // namespace plimsoll::pytorch
