#include "estimate/candidates.h"

#include <fmt/format.h>

#include "strategy/names.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

constexpr int64_t kShortestSequence = 512;  // shorter ones are no answer

// What a change costs, cheapest first.
enum Rank { kFree, kOtherKernel, kSomeCompute, kMoreCompute, kSlower, kMoreHardware, kOtherTraining };

class Checklist {
 public:
  explicit Checklist(const Estimate& e) : e_(e), job_(e.job) {}

  std::vector<Candidate> list() {
    sequence();
    micro_batch();
    recompute();
    sharding();
    attention();
    logits();
    optimizer();
    allocator();
    return std::move(candidates_);
  }

 private:
  void add(std::vector<std::string> settings, std::string price, Rank rank, int priority) {
    candidates_.push_back(
        {.settings = std::move(settings), .price = std::move(price), .rank = rank, .priority = priority});
  }

  void sequence() {
    const int64_t half = job_.batch.sequence / 2;
    if (half >= kShortestSequence)
      add({fmt::format("batch.sequence={}", half)}, "shorter contexts", kOtherTraining, 4);
  }

  void micro_batch() {
    const Batch& batch = job_.batch;
    if (batch.micro_batch == 1) return;
    const int64_t smaller = batch.micro_batch % 2 == 0 ? batch.micro_batch / 2 : 1;
    const int64_t accumulation = batch.accumulation * (batch.micro_batch / smaller);
    add({fmt::format("batch.micro_batch={}", smaller), fmt::format("batch.accumulation={}", accumulation)},
        "the same global batch in smaller pieces", kSomeCompute, 0);
  }

  void recompute() {
    if (job_.recompute.kind == RecomputeKind::kNone)
      add({"recompute.mode=selective"}, "recomputes what is cheap in each block", kSomeCompute, 6);
    if (job_.recompute.kind != RecomputeKind::kFull)
      add({"recompute.mode=full"}, "every block's forward runs once more", kMoreCompute, 0);
  }

  void sharding() {
    const Mesh& mesh = job_.mesh;
    const std::string precision = fmt::format("precision={}", name_of(job_.precision));
    if (mesh.world == 1 && e_.node.gpus > 1)
      add({fmt::format("hardware.gpus={}", e_.node.gpus), "parallel.engine=fsdp2", precision},
          fmt::format("{} GPUs instead of one", e_.node.gpus), kMoreHardware, 5);
    if (job_.engine == DataParallelEngine::kDdp)
      add({"parallel.engine=fsdp2", precision}, "parameters are gathered for each block", kSlower, 1);
    if (job_.engine != DataParallelEngine::kFsdp2) return;
    if (mesh.replicate > 1) add({"fsdp2.replicate=1"}, "shards over all ranks, across nodes", kSlower, 1);
    if (!job_.fsdp2.reshard_after_forward)
      add({"fsdp2.reshard_after_forward=true"}, "gathers each block's parameters twice", kSlower, 1);
    if (!job_.fsdp2.cpu_offload)
      add({"fsdp2.cpu_offload=true"}, "copies over PCIe, the optimizer runs on the CPU", kSlower, 5);
  }

  void attention() {
    if (job_.attention == AttentionImplementation::kEager &&
        has_attention(e_.family, AttentionImplementation::kSdpa))
      add({"attention.implementation=sdpa"}, "nothing, it is faster too", kFree, 0);
  }

  void logits() {
    if (job_.loss.kind != LossKind::kFullLogits) return;
    add({"loss.path=chunked"}, "the head runs once more, in pieces", kSomeCompute, 3);
    add({"loss.path=fused-linear"}, "needs Liger's kernel", kOtherKernel, 3);
  }

  void optimizer() {
    if (job_.optimizer.kind != OptimizerKind::kAdamW) return;
    if (job_.optimizer.implementation == OptimizerImplementation::kForeach)
      add({"optimizer.name=adamw-fused"}, "nothing, it is faster too", kFree, 2);
    add({"optimizer.name=adam8bit"}, "states in 8 bits", kOtherTraining, 2);
  }

  void allocator() {
    if (job_.allocator.configuration.empty())
      add({"allocator.configuration=expandable_segments:True"}, "nothing", kFree, 1);
  }

  const Estimate& e_;
  const ResolvedJob& job_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::vector<Candidate> candidates_for(const Estimate& estimate) { return Checklist(estimate).list(); }

}  // namespace plimsoll
