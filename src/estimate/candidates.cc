#include "estimate/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "strategy/names.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

constexpr int64_t kShortestSequence = 512;  // shorter ones are no answer

class Checklist {
 public:
  explicit Checklist(const Estimate& e) : e_(e), job_(e.job), peak_(e.peak_phase().use) {}

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
  Candidate& add(std::vector<std::string> settings, std::string price, Price rank, Bytes aim) {
    candidates_.push_back(
        {.settings = std::move(settings), .price = std::move(price), .rank = rank, .aim = aim});
    return candidates_.back();
  }

  // Bytes at the peak.
  Bytes of(std::initializer_list<Category> categories) const {
    Bytes sum;
    for (Category c : categories) sum += peak_.categories[static_cast<size_t>(c)];
    return sum;
  }
  Bytes of_batch() const { return of({Category::kActivation, Category::kTemporary, Category::kLogits}); }

  void sequence() {
    const int64_t half = job_.batch.sequence / 2;
    if (half < kShortestSequence) return;
    add({fmt::format("batch.sequence={}", half)}, "shorter contexts", Price::kOtherTraining, of_batch() / 2);
  }

  void micro_batch() {
    const Batch& batch = job_.batch;
    if (batch.micro_batch == 1) return;
    const int64_t smaller = batch.micro_batch % 2 == 0 ? batch.micro_batch / 2 : 1;
    const int64_t accumulation = saturating_multiply(batch.accumulation, batch.micro_batch / smaller);
    add({fmt::format("batch.micro_batch={}", smaller), fmt::format("batch.accumulation={}", accumulation)},
        smaller == 1 && batch.micro_batch % 2 != 0 ? "one sequence at a time"
                                                   : "the same global batch in smaller pieces",
        Price::kSomeCompute, of_batch());
  }

  void recompute() {
    const Bytes activations = of({Category::kActivation});
    if (job_.recompute.kind == RecomputeKind::kNone)
      add({"recompute.mode=selective"}, "recomputes what is cheap in each block", Price::kSomeCompute,
          activations / 4);
    if (job_.recompute.kind != RecomputeKind::kFull)
      add({"recompute.mode=full"}, "every block's forward runs once more", Price::kMoreCompute, activations);
  }

  void sharding() {
    const Mesh& mesh = job_.mesh;
    const Bytes states = of({Category::kParameter, Category::kGradient, Category::kOptimizerState});
    const std::string precision = fmt::format("precision={}", name_of(job_.precision));
    if (mesh.world == 1 && e_.node.gpus > 1)
      add({fmt::format("hardware.gpus={}", e_.node.gpus), "parallel.engine=fsdp2", precision},
          fmt::format("{} GPUs instead of one", e_.node.gpus), Price::kMoreHardware, states);
    if (job_.engine == DataParallelEngine::kDdp)
      add({"parallel.engine=fsdp2", precision}, "parameters are gathered for each block", Price::kSlower,
          states);
    if (job_.engine != DataParallelEngine::kFsdp2) return;
    if (mesh.replicate > 1)
      add({"fsdp2.replicate=1"}, "shards over all ranks, across nodes", Price::kSlower, states);
    if (!job_.fsdp2.reshard_after_forward)
      add({"fsdp2.reshard_after_forward=true"}, "gathers each block's parameters twice", Price::kSlower,
          of({Category::kUnshardedParameter}));
    if (!job_.fsdp2.cpu_offload)
      add({"fsdp2.cpu_offload=true"}, "copies over PCIe, the optimizer runs on the CPU", Price::kSlower,
          states);
  }

  void attention() {
    if (job_.attention == AttentionImplementation::kEager &&
        has_attention(e_.family, AttentionImplementation::kSdpa))
      add({"attention.implementation=sdpa"}, "nothing, it is faster too", Price::kNothing, of_batch());
  }

  void logits() {
    if (job_.loss.kind != LossKind::kFullLogits) return;
    add({"loss.path=chunked"}, "the head runs once more, in pieces", Price::kSomeCompute,
        of({Category::kLogits}));
    add({"loss.path=fused-linear"}, "needs Liger's kernel", Price::kOtherKernel, of({Category::kLogits}));
  }

  void optimizer() {
    if (job_.optimizer.kind != OptimizerKind::kAdamW) return;
    const Bytes states = of({Category::kOptimizerState});
    if (job_.optimizer.implementation == OptimizerImplementation::kForeach)
      add({"optimizer.name=adamw-fused"}, "nothing, it is faster too", Price::kNothing, states / 2);
    add({"optimizer.name=adam8bit"}, "states in 8 bits", Price::kOtherTraining, states * 3 / 4);
  }

  void allocator() {
    if (job_.allocator.configuration.empty())
      add({"allocator.configuration=expandable_segments:True"}, "nothing", Price::kNothing,
          peak_.reserved - peak_.live)
          .has_same_program = true;
  }

  const Estimate& e_;
  const ResolvedJob& job_;
  const MemoryUse& peak_;
  std::vector<Candidate> candidates_;
};

}  // namespace

// Of two values for one field the first stays: logits in pieces before another kernel for them.
std::optional<Candidate> combination_of(const std::vector<Candidate>& candidates) {
  Candidate all{.price = "together", .rank = Price::kTogether, .is_combination = true};
  std::set<std::string> fields;
  int count = 0;
  for (const Candidate& c : candidates) {
    if (c.rank >= Price::kTogether) continue;
    if (c.settings[0] == "recompute.mode=selective") continue;  // full goes further
    const auto field = [](const std::string& setting) { return setting.substr(0, setting.find('=')); };
    if (std::ranges::any_of(c.settings, [&](const auto& s) { return fields.contains(field(s)); })) continue;
    for (const std::string& setting : c.settings) fields.insert(field(setting));
    all.settings.insert(all.settings.end(), c.settings.begin(), c.settings.end());
    all.aim += c.aim;
    ++count;
  }
  return count > 1 ? std::optional(std::move(all)) : std::nullopt;
}

std::vector<Candidate> candidates_for(const Estimate& estimate) { return Checklist(estimate).list(); }

}  // namespace plimsoll
