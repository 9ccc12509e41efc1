#include "estimate/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "strategy/field.h"
#include "strategy/names.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

constexpr int64_t kShortestSequence = 512;  // shorter ones are no answer
constexpr std::string_view kOffloadPrice = "copies over PCIe, the optimizer runs on the CPU";

class Checklist {
 public:
  Checklist(const Estimate& e, const ProgramFacts& facts)
      : e_(e), facts_(facts), job_(e.job), peak_(e.peak_phase().use) {}

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

  Bytes states() const { return of({Category::kParameter, Category::kGradient, Category::kOptimizerState}); }

  void sharding() {
    const Mesh& mesh = job_.mesh;
    if (mesh.world == 1 && e_.node.gpus > 1)
      to_fsdp2({fmt::format("hardware.gpus={}", e_.node.gpus)},
               fmt::format("{} GPUs instead of one", e_.node.gpus), Price::kMoreHardware);
    if (job_.engine == DataParallelEngine::kDdp) {
      if (!job_.ddp.gradient_as_bucket_view)
        add({"ddp.gradient_as_bucket_view=true"}, "nothing", Price::kNothing,
            of({Category::kGradient, Category::kCommunicationBucket}) / 2);
      to_fsdp2(ddp_resets(), "parameters are gathered for each block", Price::kSlower);
    }
    if (job_.engine == DataParallelEngine::kFsdp2) within_fsdp2();
  }

  // Another engine, as it would be chosen with the same dtypes; and with offload on top, as a last resort.
  void to_fsdp2(std::vector<std::string> settings, const std::string& price, Price rank) {
    settings.emplace_back("parallel.engine=fsdp2");
    settings.push_back(fmt::format("precision={}", name_of(job_.precision)));
    add(settings, price, rank, states());
    settings.emplace_back("fsdp2.cpu_offload=true");
    add(std::move(settings), fmt::format("{}, {}", price, kOffloadPrice), rank, states() * 2).is_last_resort =
        true;
  }

  void within_fsdp2() {
    if (job_.mesh.replicate > 1)
      add({"fsdp2.replicate=1"}, "shards over all ranks, across nodes", Price::kSlower, states());
    if (!job_.fsdp2.reshard_after_forward)
      add({"fsdp2.reshard_after_forward=true"}, "gathers each block's parameters twice", Price::kSlower,
          of({Category::kUnshardedParameter}));
    if (!job_.fsdp2.cpu_offload)
      add({"fsdp2.cpu_offload=true"}, std::string(kOffloadPrice), Price::kSlower, states());
  }

  // DDP's own settings mean nothing to another engine.
  std::vector<std::string> ddp_resets() const {
    const Job fresh, ours{.ddp = job_.ddp};
    std::vector<std::string> resets;
    for (const Field& field : job_fields())
      if (field.section() == "ddp" && field.get(ours) != field.get(fresh))
        resets.push_back(fmt::format("{}=default", field.text.path));
    return resets;
  }

  void attention() {
    const bool has_sdpa = has_attention(e_.family, AttentionImplementation::kSdpa);
    const bool is_eager = job_.attention == AttentionImplementation::kEager;
    if (is_eager && has_sdpa)
      add({"attention.implementation=sdpa"}, "nothing, it is faster too", Price::kNothing, of_batch());
    // sdpa itself takes a flash kernel where it can: the package saves where it can't.
    const bool misses_flash =
        is_eager ? !has_sdpa
                 : job_.attention == AttentionImplementation::kSdpa && !facts_.has_flash_attention;
    if (misses_flash && has_attention(e_.family, AttentionImplementation::kFlashAttention2) &&
        is_half(job_.matmul_dtype()))
      add({"attention.implementation=flash_attention_2"}, "needs the flash-attn package", Price::kOtherKernel,
          of_batch());
  }

  void logits() {
    if (job_.loss.kind != LossKind::kFullLogits || e_.task != Task::kCausalLm) return;
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
  const ProgramFacts& facts_;
  const ResolvedJob& job_;
  const MemoryUse& peak_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::string field_of(const std::string& setting) { return setting.substr(0, setting.find('=')); }

bool have_common_field(const Candidate& a, const Candidate& b) {
  return std::ranges::any_of(a.settings, [&](const std::string& one) {
    return std::ranges::any_of(b.settings,
                               [&](const std::string& other) { return field_of(one) == field_of(other); });
  });
}

std::string joined_prices(const std::vector<std::string>& prices) {
  std::vector<std::string> paid;
  for (const std::string& price : prices)
    if (!price.starts_with("nothing") && std::ranges::find(paid, price) == paid.end()) paid.push_back(price);
  return paid.empty() ? "nothing" : fmt::format("{}", fmt::join(paid, "; "));
}

// Of two values for one field the first stays: logits in pieces before another kernel for them.
std::optional<Candidate> combination_of(const std::vector<Candidate>& candidates) {
  Candidate all{.rank = Price::kTogether, .is_combination = true};
  std::vector<std::string> prices;
  for (const Candidate& c : candidates) {
    if (c.rank >= Price::kTogether || c.is_last_resort) continue;
    if (c.settings[0] == "recompute.mode=selective") continue;  // full goes further
    if (have_common_field(c, all)) continue;
    all.settings.insert(all.settings.end(), c.settings.begin(), c.settings.end());
    all.aim += c.aim;
    prices.push_back(c.price);
  }
  all.price = joined_prices(prices);
  return prices.size() > 1 ? std::optional(std::move(all)) : std::nullopt;
}

ProgramFacts facts_of(const Program& program) {
  const auto is_unfused = [](const Op& op) {
    return op.kind == OpKind::kSafeSoftmax || op.kind == OpKind::kEfficientAttention;
  };
  return {.has_flash_attention = std::ranges::none_of(program.ops, is_unfused)};
}

std::vector<Candidate> candidates_for(const Estimate& estimate, const ProgramFacts& facts) {
  return Checklist(estimate, facts).list();
}

}  // namespace plimsoll
