#include "frameworks/megatron/optimizer_state.h"

#include "program/ops_megatron.h"

namespace plimsoll::megatron {
namespace {

Value scalar(Recorder& r, DType dtype = DType::kFloat32) { return ops::zeros(r, {1}, dtype); }

// Blocks of multi_tensor_l2norm, each with a sum of its own. Source: csrc/multi_tensor_l2norm_kernel.cu
// (output = at::zeros({320})).
constexpr int64_t kNormBlocks = 320;
constexpr int kFlags = 2, kFp16Flags = 7;

}  // namespace

void OptimizerState::make(const std::vector<ChunkState>& chunks) {
  for (const bool is_expert : {false, true}) {
    if (is_expert) first_expert_ = masters_.size();
    bool has_any = false;
    for (const ChunkState& chunk : chunks)
      for (const ParameterGroup& group : chunk.groups()) has_any |= group.is_expert == is_expert;
    if (!has_any) continue;
    ++chained_;
    make_flags();
    for (const bool is_decayed : {true, false})
      for (const ChunkState& chunk : chunks)
        for (const ParameterGroup& group : chunk.groups())
          if (group.is_expert == is_expert) make_masters(chunk, group, is_decayed);
  }
}

void OptimizerState::make_masters(const ChunkState& chunk, const ParameterGroup& group, bool is_decayed) {
  const With<Category> category(r_.category, Category::kMasterParameter);
  const int64_t ranks = optimizer_ranks(job_, group.is_expert);
  std::vector<BufferRange> owned = group.layout.parameters;
  if (job_.megatron->has_distributed_optimizer) owned = owned_ranges(group.layout, ranks - 1, ranks);
  for (size_t m = 0; m < owned.size(); ++m) {
    const StageParameter& p = chunk.parameters()[group.members[m]];
    if (p.is_decayed != is_decayed || owned[m].size() == 0) continue;
    const With<ModuleId> module(r_.module, r_.program().module(p.name));
    Value part = ops::view(chunk.parameter(group.members[m]), {p.elements()});
    part = ops::slice(std::move(part), 0, owned[m].first - group.layout.parameters[m].first, owned[m].size());
    part = ops::clone(std::move(part));
    masters_.push_back(ops::cast(std::move(part), DType::kFloat32));
  }
}

// ChainedOptimizer: a norm of each optimizer's gradients, whose squares are summed as numbers of the host;
// then a coefficient of the host.
void OptimizerState::clip_chained() {
  std::vector<Value> norms;
  for (int i = 0; i < chained_; ++i) norms.push_back(norm_of_gradients());
  norms.clear();
  if (is_first_) ops::from_host(r_, {1}, DType::kInt32);
  for (int i = 0; i < chained_; ++i) scalar(r_);
  for (int i = 0; i < chained_; ++i) scalar(r_, DType::kInt32);
}
Value OptimizerState::norm_of_gradients() {
  const Value total = scalar(r_), overflow = scalar(r_, DType::kInt32);
  Value sums = ops::zeros(r_, {kNormBlocks}, DType::kFloat32);
  const Value norm = ops::empty(r_, {1}, DType::kFloat32);
  sums.reset();
  return ops::pow(ops::pow(norm, 2), 0.5);
}

// get_grad_norm_fp32: the norm's square is summed over the ranks.
void OptimizerState::clip() {
  Value total = scalar(r_);
  Value overflow = scalar(r_, DType::kInt32);
  Value sums = ops::zeros(r_, {kNormBlocks}, DType::kFloat32);
  Value norm = ops::empty(r_, {1}, DType::kFloat32);
  sums.reset();
  Value squared = ops::pow(norm, 2);
  total.reset();
  // Without Transformer Engine's kernel for it the coefficient is a number of the host.
  const bool stays = job_.megatron->has_transformer_engine;
  if (stays) gradient_norm_ = ops::pow(squared, 0.5);
  squared.reset();
  overflow.reset();
  norm.reset();
  if (is_first_) ops::from_host(r_, {1}, DType::kInt32);
  Value zero = scalar(r_);
  if (!stays) {
    zero.reset();
    const Value flag = scalar(r_, DType::kInt32);
    return;
  }
  kept_norm_ = ops::pow(std::move(zero), 0.5);
  Value shifted = ops::add(kept_norm_, 1e-6);
  Value inverse = ops::unary(OpKind::kReciprocal, shifted);
  Value coefficient = ops::mul(inverse, job_.megatron->clip_gradients);
  inverse.reset();
  shifted.reset();
  Value flag = scalar(r_, DType::kInt32);
  coefficient.reset();
}

// count_zeros_fp32
void OptimizerState::count_zeros() {
  if (has_one_norm()) return count_zeros(0, masters_.size());
  count_zeros(0, first_expert_);
  count_zeros(first_expert_, masters_.size());
}
void OptimizerState::count_zeros(size_t first, size_t last) {
  Value total = scalar(r_, DType::kInt64);
  Value zeros;
  for (size_t i = first; i < last; ++i) {
    const Value& master = masters_[i];
    Value nonzero = count_nonzero(master);
    Value count =
        ops::with_scalar(OpKind::kRsub, std::move(nonzero), static_cast<double>(master.layout().elements()));
    zeros = std::move(count);
    Value sum = ops::add(total, zeros);
    total = std::move(sum);
  }
  total.reset();
  zeros.reset();
}

// Scalars of MixedPrecisionOptimizer: _dummy_overflow_buf and _scale_one; with a loss scale found_inf, and
// DynamicGradScaler's scale, its bounds and factors.
void OptimizerState::make_flags() {
  const With<Category> category(r_.category, Category::kOptimizerState);
  const int count = is_fp16() ? kFp16Flags : kFlags;
  for (int i = 0; i < count; ++i) flags_.push_back(ops::from_host(r_, {1}, DType::kFloat32));
}

// fp16: fp32 copies of the gradients, which stay to the next zero_grad, and the scale's inverse.
void OptimizerState::copy_gradients() {
  {
    const With<Category> category(r_.category, Category::kGradient);
    for (const Value& master : masters_) {
      const With<ModuleId> module(r_.module, r_.program().storage_of(master.id()).owner);
      gradients_.push_back(ops::empty_like(master));
    }
  }
  Value wide = ops::from_host(r_, {1}, DType::kFloat64);
  Value inverse = ops::unary(OpKind::kReciprocal, wide);
  wide.reset();
  Value narrow = ops::cast(inverse, DType::kFloat32);
  inverse.reset();
}

void OptimizerState::step() {
  const With<Category> category(r_.category, Category::kTemporary);
  kept_norm_.reset();
  if (is_fp16()) copy_gradients();
  if (has_one_norm())
    clip();
  else
    clip_chained();
  if (job_.megatron->counts_zeros) count_zeros();
  if (is_first_) {
    const With<Category> states(r_.category, Category::kOptimizerState);
    for (const Value& master : masters_)
      for (int i = 0; i < 2; ++i) moments_.push_back(ops::empty_like(master));
  }
  is_first_ = false;
}

void OptimizerState::zero_gradients() { gradients_.clear(); }

}  // namespace plimsoll::megatron
