// Source: torchtitan 0.1.0 models/llama3/infra/parallelize.py (_save_list, _apply_ac_to_transformer_block);
// 0.2.2 distributed/activation_checkpoint.py, models/llama3/infra/parallelize.py (_op_sac_save_list).
#include "frameworks/torchtitan/activation_checkpoint.h"

namespace plimsoll::torchtitan {
namespace {

// Besides matrix products, of which every second result is computed again.
std::vector<OpKind> kept_kinds(TorchtitanRelease release) {
  std::vector<OpKind> kept = {OpKind::kFlashAttention, OpKind::kEfficientAttention};
  if (release != TorchtitanRelease::k010) kept.push_back(OpKind::kCudnnAttention);
  return kept;
}

// Layers are counted from 1: with 2 the second, the fourth ...
bool is_chosen(const Recompute& recompute, int64_t number) {
  return recompute.kind != RecomputeKind::kEveryNth || number % recompute.every_nth == 0;
}

}  // namespace

Result<void> mark_checkpoints(Program& forward, const ResolvedJob& job) {
  if (job.recompute.kind == RecomputeKind::kNone) return {};
  const bool is_selective = job.recompute.kind == RecomputeKind::kSelective;
  int64_t number = 0;
  for (Region& region : forward.regions) {
    if (region.kind != RegionKind::kBlock || !is_chosen(job.recompute, ++number)) continue;
    region.checkpoint = is_selective ? Checkpoint::kSelective : Checkpoint::kNonReentrant;
    region.is_recomputed_whole = job.torchtitan.release != TorchtitanRelease::k010;  // early_stop = False
    if (!is_selective) continue;
    region.kept = kept_kinds(job.torchtitan.release);
    region.alternately_kept = {OpKind::kMm};
    region.keeps_only_needed = job.torchtitan.compiles_blocks;
  }
  return {};
}

}  // namespace plimsoll::torchtitan
