#include "estimate/candidates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "strategy/names.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

constexpr int64_t kShortestSequence = 512;  // shorter ones are no answer
constexpr std::string_view kOffloadPrice = "copies over PCIe, the optimizer on the CPU";

constexpr int64_t kMostTimesTheGpus = 64;

std::string batch_change(const Batch& batch, int64_t times) {
  return fmt::format("global batch {} -> {}", batch.global_batch,
                     saturating_multiply(batch.global_batch, times));
}

class Checklist {
 public:
  Checklist(const Estimate& e, const JobFacts& facts)
      : e_(e), facts_(facts), job_(e.job), peak_(e.peak_phase().use) {}

  std::vector<Candidate> list() {
    sequence();
    micro_batch();
    recompute();
    hardware();
    sharding();
    attention();
    logits();
    optimizer();
    allocator();
    return std::move(candidates_);
  }

 private:
  Candidate& add(std::vector<std::string> settings, std::string price, Price rank, Bytes aim,
                 Role role = Role::kRow) {
    candidates_.push_back(
        {.settings = std::move(settings), .price = std::move(price), .rank = rank, .aim = aim, .role = role});
    return candidates_.back();
  }

  bool fits() const { return std::max(e_.verdict.gpu, e_.verdict.host) == Fit::kFits; }

  // Bytes at the peak.
  Bytes of(std::initializer_list<Category> categories) const {
    Bytes sum;
    for (Category c : categories) sum += peak_.categories[static_cast<size_t>(c)];
    return sum;
  }
  Bytes of_batch() const { return of({Category::kActivation, Category::kTemporary, Category::kLogits}); }
  Bytes states() const { return of({Category::kParameter, Category::kGradient, Category::kOptimizerState}); }

  // The first of a way's steps is the table's row.
  static Role role_of(bool is_first) { return is_first ? Role::kRow : Role::kStep; }

  void sequence() {
    for (int64_t parts = 2; job_.batch.sequence / parts >= kShortestSequence; parts *= 2)
      add({fmt::format("batch.sequence={}", job_.batch.sequence / parts)}, "shorter contexts",
          Price::kShorterSequence, of_batch() / 2, role_of(parts == 2));
  }

  // Halved as often as it goes; of an odd one the smallest factor is taken.
  void micro_batch() {
    const Batch& batch = job_.batch;
    for (int64_t left = batch.micro_batch; left > 1;) {
      const bool is_first = left == batch.micro_batch;
      int64_t factor = 2;
      while (left % factor != 0) ++factor;
      left /= factor;
      const int64_t accumulation = saturating_multiply(batch.accumulation, batch.micro_batch / left);
      add({fmt::format("batch.micro_batch={}", left), fmt::format("batch.accumulation={}", accumulation)},
          "smaller pieces of the same global batch", Price::kSomeCompute, of_batch(), role_of(is_first));
    }
  }

  void recompute() {
    const Bytes activations = of({Category::kActivation});
    if (job_.recompute.kind == RecomputeKind::kNone)
      add({"recompute.mode=selective"}, "recomputing what is cheap in each block", Price::kSomeCompute,
          activations / 4);
    if (job_.recompute.kind != RecomputeKind::kFull)
      add({"recompute.mode=full"}, "another forward of every block", Price::kMoreCompute, activations);
  }

  // More GPUs than a job that fits has are no help; but of a node's GPUs one is seldom used alone.
  void hardware() {
    const int64_t world = job_.mesh.world, row = world == 1 ? e_.node.gpus : 2 * world;
    std::set<int64_t> counts;
    if (row > 1 && (world == 1 || !fits())) counts.insert(row);
    if (!fits())
      for (int64_t times = 2; times <= kMostTimesTheGpus; times *= 2)
        counts.insert(saturating_multiply(world, times));
    for (const int64_t gpus : counts) more_gpus(gpus, gpus == row ? Role::kRow : Role::kStep);
  }

  void more_gpus(int64_t gpus, Role role) {
    const auto is_assumed = [&](std::string_view field) {
      return std::ranges::any_of(job_.assumed, [&](const Assumption& a) { return a.field == field; });
    };
    std::vector<std::string> settings{fmt::format("hardware.gpus={}", gpus)};
    if (job_.mesh.world > 1 && !is_assumed("parallel.data")) settings.emplace_back("parallel.data=default");
    if (job_.engine == DataParallelEngine::kNone) append(settings, to_sharding());
    std::string price = job_.mesh.world == 1 ? fmt::format("{} GPUs instead of one", gpus)
                                             : fmt::format("{} GPUs instead of {}", gpus, job_.mesh.world);
    if (is_assumed("batch.global_batch")) price += ", " + batch_change(job_.batch, gpus / job_.mesh.world);
    add(std::move(settings), std::move(price), Price::kMoreHardware, states(), role).takes_from_host =
        job_.fsdp2.cpu_offload || job_.offload.optimizer != OffloadTarget::kNone;
  }

  static void append(std::vector<std::string>& settings, std::vector<std::string> more) {
    std::ranges::move(more, std::back_inserter(settings));
  }

  // Another engine, as it would be chosen with the same dtypes.
  std::vector<std::string> to_sharding() const {
    if (job_.framework == Framework::kNative) return {"parallel.engine=zero"};
    return {"parallel.engine=fsdp2", fmt::format("precision={}", name_of(job_.precision))};
  }

  void sharding() {
    if (job_.framework == Framework::kNative) return within_native();
    if (job_.engine == DataParallelEngine::kFsdp2) return within_fsdp2();
    if (job_.engine == DataParallelEngine::kDdp) within_ddp();
    add({"fsdp2.cpu_offload=true"}, std::string(kOffloadPrice), Price::kSlower, states(), Role::kAddition);
  }

  void within_native() {
    const bool is_zero = job_.engine == DataParallelEngine::kZero;
    if (is_zero && job_.mesh.data > 1 && job_.zero.stage < 3)
      add({"zero.stage=3"}, "gathering the parameters of each block", Price::kSlower, states());
    if (job_.offload.activations == OffloadTarget::kNone)
      add({"offload.activations=host"}, "copies over PCIe", Price::kSlower, of({Category::kActivation}));
    if (e_.verdict.host != Fit::kFits) native_for_the_host();
    if (job_.offload.optimizer == OffloadTarget::kNone)
      add({"offload.optimizer=host"}, std::string(kOffloadPrice), Price::kSlower, states());
    else if (is_zero && job_.zero.stage == 3 && job_.offload.parameters == OffloadTarget::kNone)
      add({"offload.parameters=host"}, "copies of the parameters over PCIe", Price::kSlower,
          of({Category::kParameter}));
  }

  void native_for_the_host() {
    const auto back = [&](std::vector<std::string> settings, Bytes aim) {
      add(std::move(settings), "nothing, it is faster too", Price::kNothing, aim).takes_from_host = true;
    };
    const bool has_parameters = job_.offload.parameters != OffloadTarget::kNone;
    if (job_.offload.activations != OffloadTarget::kNone)
      back({"offload.activations=none"}, of({Category::kActivation}));
    if (has_parameters)
      back({"offload.parameters=none", "offload.optimizer=none"}, states());
    else if (job_.offload.optimizer != OffloadTarget::kNone)
      back({"offload.optimizer=none"}, states());
  }

  void within_ddp() {
    if (!job_.ddp.gradient_as_bucket_view)
      add({"ddp.gradient_as_bucket_view=true"}, "nothing", Price::kNothing,
          of({Category::kGradient, Category::kCommunicationBucket}) / 2);
    add(to_sharding(), "gathering the parameters of each block", Price::kSlower, states());
  }

  void within_fsdp2() {
    if (job_.mesh.replicate > 1)
      add({"fsdp2.replicate=1"}, "sharding over all ranks, across nodes", Price::kSlower, states())
          .takes_from_host = job_.fsdp2.cpu_offload;
    if (facts_.even_replicas && !fits())
      add({fmt::format("fsdp2.replicate={}", *facts_.even_replicas)}, "summing gradients over the copies too",
          Price::kSlower, of({Category::kGatherBuffer, Category::kReduceBuffer}) / 2);
    if (!job_.fsdp2.reshard_after_forward)
      add({"fsdp2.reshard_after_forward=true"}, "gathering each block's parameters twice", Price::kSlower,
          of({Category::kUnshardedParameter}));
    if (!job_.fsdp2.cpu_offload)
      add({"fsdp2.cpu_offload=true"}, std::string(kOffloadPrice), Price::kSlower, states());
    else if (e_.verdict.host != Fit::kFits)
      for_the_host();
  }

  void for_the_host() {
    add(on_the_gpu(), "nothing, it is faster too", Price::kNothing, states()).takes_from_host = true;
    if (job_.fsdp2.pin_memory)
      add({"fsdp2.pin_memory=false"}, "copies that wait for each other", Price::kSlower, states())
          .takes_from_host = true;
  }

  // pin_memory means nothing without offload.
  std::vector<std::string> on_the_gpu() const {
    std::vector<std::string> settings{"fsdp2.cpu_offload=false"};
    if (!job_.fsdp2.pin_memory) settings.emplace_back("fsdp2.pin_memory=default");
    return settings;
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
      add({"attention.implementation=flash_attention_2"}, "the flash-attn package", Price::kOtherKernel,
          of_batch());
  }

  void logits() {
    if (job_.loss.kind != LossKind::kFullLogits || e_.task != Task::kCausalLm) return;
    add({"loss.path=chunked"}, "another run of the head, in pieces", Price::kSomeCompute,
        of({Category::kLogits}));
    add({"loss.path=fused-linear"}, "Liger's kernel", Price::kOtherKernel, of({Category::kLogits}));
  }

  void optimizer() {
    if (job_.optimizer.kind != OptimizerKind::kAdamW) return;
    const Bytes states = of({Category::kOptimizerState});
    if (job_.optimizer.implementation == OptimizerImplementation::kForeach)
      add({"optimizer.name=adamw-fused"}, "nothing, it is faster too", Price::kNothing, states / 2);
    add({"optimizer.name=adam8bit"}, "8-bit optimizer states", Price::kOtherOptimizer, states * 3 / 4);
  }

  void allocator() {
    if (job_.allocator.configuration.empty())
      add({"allocator.configuration=expandable_segments:True"}, "nothing", Price::kNothing,
          peak_.reserved - peak_.live)
          .has_same_program = true;
  }

  const Estimate& e_;
  const JobFacts& facts_;
  const ResolvedJob& job_;
  const MemoryUse& peak_;
  std::vector<Candidate> candidates_;
};

constexpr int64_t kWorthAChange = 50;  // one part in so many

// Shards are halved while a rank holds no more for it: what is padding now.
std::optional<int64_t> even_replicas(const Architecture& architecture, const ResolvedJob& job) {
  if (job.engine != DataParallelEngine::kFsdp2) return std::nullopt;
  const int64_t now = job.mesh.shard, held = held_elements(architecture, now);
  int64_t shards = now;
  while (shards % 2 == 0 && shards > 2 &&
         held_elements(architecture, shards / 2) * kWorthAChange <= held * (kWorthAChange + 1))
    shards /= 2;
  return shards == now ? std::nullopt : std::optional(job.mesh.data / shards);
}

}  // namespace

std::string field_of(const std::string& setting) { return setting.substr(0, setting.find('=')); }

bool have_common_field(const Candidate& a, const Candidate& b) {
  return std::ranges::any_of(a.settings, [&](const std::string& one) {
    return std::ranges::any_of(b.settings,
                               [&](const std::string& other) { return field_of(one) == field_of(other); });
  });
}

namespace {

std::string joined_prices(const std::vector<const Candidate*>& parts) {
  std::vector<std::string> paid;
  for (const Candidate* part : parts)
    if (!part->price.starts_with("nothing") && std::ranges::find(paid, part->price) == paid.end())
      paid.push_back(part->price);
  return paid.empty() ? "nothing" : fmt::format("{}", fmt::join(paid, "; "));
}

}  // namespace

Candidate merged(const std::vector<const Candidate*>& parts) {
  if (parts.size() == 1) return *parts[0];
  Candidate all{.price = joined_prices(parts), .is_combination = true};
  for (const Candidate* part : parts) {
    all.settings.insert(all.settings.end(), part->settings.begin(), part->settings.end());
    all.rank = std::max(all.rank, part->rank);
    all.aim += part->aim;
  }
  return all;
}

std::vector<size_t> combinable(const std::vector<Candidate>& candidates) {
  std::vector<size_t> parts;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    if (c.rank >= Price::kSlower || c.role != Role::kRow) continue;
    if (c.settings[0] == "recompute.mode=selective") continue;  // full goes further
    const auto clashes = [&](size_t part) { return have_common_field(candidates[part], c); };
    if (std::ranges::none_of(parts, clashes)) parts.push_back(i);
  }
  return parts.size() > 1 ? parts : std::vector<size_t>();
}

JobFacts facts_of(const Program& program, const Architecture& architecture, const ResolvedJob& job) {
  const auto is_unfused = [](const Op& op) {
    return op.kind == OpKind::kSafeSoftmax || op.kind == OpKind::kEfficientAttention;
  };
  return {.has_flash_attention = std::ranges::none_of(program.ops, is_unfused),
          .even_replicas = even_replicas(architecture, job)};
}

std::vector<Candidate> candidates_for(const Estimate& estimate, const JobFacts& facts) {
  return Checklist(estimate, facts).list();
}

}  // namespace plimsoll
