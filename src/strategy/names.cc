#include "strategy/names.h"

#include <fmt/format.h>

#include <charconv>

#include "hardware/name_match.h"

namespace plimsoll {
namespace {

constexpr EnumName<Framework> kFrameworks[] = {{Framework::kPytorch, "pytorch"},
                                               {Framework::kTorchtitan, "torchtitan"},
                                               {Framework::kMegatron, "megatron"},
                                               {Framework::kDeepspeed, "deepspeed"},
                                               {Framework::kNative, "native"}};

constexpr EnumName<Precision> kPrecisions[] = {{Precision::kFloat32, "fp32"},
                                               {Precision::kFloat32, "float32"},
                                               {Precision::kBFloat16, "bf16"},
                                               {Precision::kBFloat16, "bfloat16"},
                                               {Precision::kFloat16, "fp16"},
                                               {Precision::kFloat16, "float16"},
                                               {Precision::kAutocastBFloat16, "amp-bf16"},
                                               {Precision::kAutocastFloat16, "amp-fp16"},
                                               {Precision::kMixedBFloat16, "bf16-mixed"}};

constexpr EnumName<TaskChoice> kTasks[] = {{TaskChoice::kAutomatic, "automatic"},
                                           {TaskChoice::kCausalLm, "causal-lm"},
                                           {TaskChoice::kMaskedLm, "masked-lm"}};

constexpr EnumName<DataParallelEngine> kEngines[] = {{DataParallelEngine::kNone, "none"},
                                                     {DataParallelEngine::kDdp, "ddp"},
                                                     {DataParallelEngine::kFsdp2, "fsdp2"},
                                                     {DataParallelEngine::kZero, "zero"}};

constexpr EnumName<AttentionImplementation> kAttentions[] = {
    {AttentionImplementation::kEager, "eager"},
    {AttentionImplementation::kSdpa, "sdpa"},
    {AttentionImplementation::kFlashAttention2, "flash_attention_2"}};

constexpr EnumName<SdpaBackend> kBackends[] = {
    {SdpaBackend::kAutomatic, "automatic"}, {SdpaBackend::kCudnnFirst, "cudnn-first"},
    {SdpaBackend::kFlash, "flash"},         {SdpaBackend::kEfficient, "efficient"},
    {SdpaBackend::kCudnn, "cudnn"},         {SdpaBackend::kMath, "math"}};

constexpr EnumName<ExpertsImplementation> kExperts[] = {{ExpertsImplementation::kGroupedMm, "grouped_mm"},
                                                        {ExpertsImplementation::kBatchedMm, "batched_mm"},
                                                        {ExpertsImplementation::kEager, "eager"}};

constexpr EnumName<LossKind> kLosses[] = {{LossKind::kFullLogits, "full"},
                                          {LossKind::kChunked, "chunked"},
                                          {LossKind::kFusedLinear, "fused-linear"}};

constexpr EnumName<TorchtitanRelease> kTorchtitanReleases[] = {{TorchtitanRelease::k010, "0.1.0"},
                                                               {TorchtitanRelease::k022, "0.2.2"}};

constexpr EnumName<ReshardPolicy> kReshardPolicies[] = {{ReshardPolicy::kDefault, "default"},
                                                        {ReshardPolicy::kAlways, "always"},
                                                        {ReshardPolicy::kNever, "never"}};

constexpr EnumName<Float8Recipe> kFloat8Recipes[] = {{Float8Recipe::kNone, "none"},
                                                     {Float8Recipe::kTensorwise, "tensorwise"},
                                                     {Float8Recipe::kRowwise, "rowwise"}};

constexpr EnumName<ZeroGrad> kZeroGrads[] = {
    {ZeroGrad::kSetToNone, "set-to-none"}, {ZeroGrad::kZeros, "zeros"}, {ZeroGrad::kNever, "never"}};

constexpr EnumName<LearningRateSchedule> kSchedules[] = {{LearningRateSchedule::kConstant, "constant"},
                                                         {LearningRateSchedule::kCosine, "cosine"}};

constexpr EnumName<DataFormat> kDataFormats[] = {{DataFormat::kAutomatic, "automatic"},
                                                 {DataFormat::kText, "text"},
                                                 {DataFormat::kJsonLines, "json-lines"},
                                                 {DataFormat::kTokens, "tokens"}};
constexpr EnumName<TokenDtype> kTokenDtypes[] = {{TokenDtype::kUInt16, "uint16"},
                                                 {TokenDtype::kUInt32, "uint32"}};

constexpr EnumName<OffloadTarget> kOffloadTargets[] = {{OffloadTarget::kNone, "none"},
                                                       {OffloadTarget::kHost, "host"},
                                                       {OffloadTarget::kHost, "cpu"},
                                                       {OffloadTarget::kDisk, "disk"},
                                                       {OffloadTarget::kDisk, "nvme"}};

constexpr EnumName<ModelLoad> kModelLoads[] = {{ModelLoad::kMeta, "meta"}, {ModelLoad::kDevice, "device"}};

constexpr EnumName<UseCache> kUseCaches[] = {
    {UseCache::kFalse, "false"}, {UseCache::kTrue, "true"}, {UseCache::kConfig, "config"}};

constexpr EnumName<OptimizerKind> kOptimizers[] = {{OptimizerKind::kAdamW, "adamw"},
                                                   {OptimizerKind::kSgd, "sgd"},
                                                   {OptimizerKind::kSgdMomentum, "sgd-momentum"},
                                                   {OptimizerKind::kAdafactor, "adafactor"},
                                                   {OptimizerKind::kAdam8bit, "adam8bit"},
                                                   {OptimizerKind::kLion, "lion"},
                                                   {OptimizerKind::kMuon, "muon"},
                                                   {OptimizerKind::kNone, "none"}};

struct ImplementationSuffix {
  OptimizerImplementation implementation;
  std::string_view suffix;
};
constexpr ImplementationSuffix kSuffixes[] = {{OptimizerImplementation::kForeach, ""},
                                              {OptimizerImplementation::kFused, "-fused"},
                                              {OptimizerImplementation::kForLoop, "-loop"}};

constexpr std::string_view kForeach = "-foreach";  // may be said, is never written

bool has_implementations(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW || kind == OptimizerKind::kSgd || kind == OptimizerKind::kSgdMomentum;
}

bool is_plain_foreach(const Optimizer& optimizer) {
  return has_implementations(optimizer.kind) && optimizer.implementation == OptimizerImplementation::kForeach;
}

constexpr std::string_view kEvery = "every-";
constexpr std::string_view kReentrant = "-reentrant";

}  // namespace

template <>
std::span<const EnumName<Framework>> enum_names() {
  return kFrameworks;
}
template <>
std::span<const EnumName<Precision>> enum_names() {
  return kPrecisions;
}
template <>
std::span<const EnumName<TaskChoice>> enum_names() {
  return kTasks;
}
template <>
std::span<const EnumName<DataParallelEngine>> enum_names() {
  return kEngines;
}
template <>
std::span<const EnumName<AttentionImplementation>> enum_names() {
  return kAttentions;
}
template <>
std::span<const EnumName<SdpaBackend>> enum_names() {
  return kBackends;
}
template <>
std::span<const EnumName<ExpertsImplementation>> enum_names() {
  return kExperts;
}
template <>
std::span<const EnumName<LossKind>> enum_names() {
  return kLosses;
}
template <>
std::span<const EnumName<TorchtitanRelease>> enum_names() {
  return kTorchtitanReleases;
}
template <>
std::span<const EnumName<ReshardPolicy>> enum_names() {
  return kReshardPolicies;
}
template <>
std::span<const EnumName<Float8Recipe>> enum_names() {
  return kFloat8Recipes;
}
template <>
std::span<const EnumName<ZeroGrad>> enum_names() {
  return kZeroGrads;
}
template <>
std::span<const EnumName<ModelLoad>> enum_names() {
  return kModelLoads;
}
template <>
std::span<const EnumName<OffloadTarget>> enum_names() {
  return kOffloadTargets;
}
template <>
std::span<const EnumName<LearningRateSchedule>> enum_names() {
  return kSchedules;
}
template <>
std::span<const EnumName<DataFormat>> enum_names() {
  return kDataFormats;
}
template <>
std::span<const EnumName<TokenDtype>> enum_names() {
  return kTokenDtypes;
}
template <>
std::span<const EnumName<UseCache>> enum_names() {
  return kUseCaches;
}

bool is_same_name(std::string_view a, std::string_view b) { return normalized_name(a) == normalized_name(b); }

std::string_view name_of(Framework value) { return written_name(value); }
std::string_view name_of(Precision value) { return written_name(value); }
std::string_view name_of(TaskChoice value) { return written_name(value); }
std::string_view name_of(DataParallelEngine value) { return written_name(value); }
std::string_view name_of(AttentionImplementation value) { return written_name(value); }
std::string_view name_of(SdpaBackend value) { return written_name(value); }
std::string_view name_of(ExpertsImplementation value) { return written_name(value); }
std::string_view name_of(LossKind value) { return written_name(value); }
std::string_view name_of(TorchtitanRelease value) { return written_name(value); }
std::string_view name_of(ReshardPolicy value) { return written_name(value); }
std::string_view name_of(Float8Recipe value) { return written_name(value); }
std::string_view name_of(ZeroGrad value) { return written_name(value); }
std::string_view name_of(OffloadTarget value) { return written_name(value); }
std::string_view name_of(UseCache value) { return written_name(value); }

std::string name_of(const Optimizer& optimizer) {
  std::string name;
  for (const auto& entry : kOptimizers)
    if (entry.value == optimizer.kind) name = entry.name;
  for (const auto& entry : kSuffixes)
    if (entry.implementation == optimizer.implementation) name += entry.suffix;
  return name;
}

std::optional<Optimizer> optimizer_from_name(std::string_view name) {
  std::string text = normalized_name(name);
  if (text == "adamw-torch") text = "adamw";  // as the Trainer of Transformers names torch.optim.AdamW
  if (text == "adamw-torch-fused") text = "adamw-fused";
  std::string_view short_name = text;
  if (short_name.ends_with(kForeach)) short_name.remove_suffix(kForeach.size());
  for (const auto& entry : kOptimizers) {
    for (const auto& [implementation, suffix] : kSuffixes) {
      if (!suffix.empty() && !has_implementations(entry.value)) continue;
      const Optimizer optimizer{.kind = entry.value, .implementation = implementation};
      if (short_name.size() != text.size() && !is_plain_foreach(optimizer)) continue;
      if (name_of(optimizer) == short_name) return optimizer;
    }
  }
  return std::nullopt;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& entry : kOptimizers)
    for (const auto& [implementation, suffix] : kSuffixes)
      if (suffix.empty() || has_implementations(entry.value))
        names.push_back(fmt::format("{}{}", entry.name, suffix));
  return names;
}

std::string name_of(const Recompute& recompute) {
  const std::string_view suffix = recompute.is_reentrant ? kReentrant : "";
  switch (recompute.kind) {
    case RecomputeKind::kNone:
      return "none";
    case RecomputeKind::kFull:
      return fmt::format("full{}", suffix);
    case RecomputeKind::kEveryNth:
      return fmt::format("{}{}{}", kEvery, recompute.every_nth, suffix);
    case RecomputeKind::kSelective:
      return "selective";
  }
  return "?";
}

std::optional<Recompute> recompute_from_name(std::string_view name) {
  const std::string text = normalized_name(name);
  std::string_view rest = text;
  if (rest == "none") return Recompute{};
  if (rest == "selective") return Recompute{.kind = RecomputeKind::kSelective};
  const bool is_reentrant = rest.ends_with(kReentrant);
  if (is_reentrant) rest.remove_suffix(kReentrant.size());
  if (rest == "full" || text == "full-nonreentrant")
    return Recompute{.kind = RecomputeKind::kFull, .is_reentrant = is_reentrant};
  if (!rest.starts_with(kEvery)) return std::nullopt;
  rest.remove_prefix(kEvery.size());
  int64_t every = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), every);
  if (error != std::errc{} || end != rest.data() + rest.size() || every < 2 || every > kMaxEveryNth)
    return std::nullopt;
  return Recompute{.kind = RecomputeKind::kEveryNth, .is_reentrant = is_reentrant, .every_nth = every};
}

std::vector<std::string> recompute_names() {
  return {"none", "full", "full-reentrant", "every-N", "every-N-reentrant", "selective"};
}

}  // namespace plimsoll
