#include "importers/megatron/experts.h"

#include <algorithm>
#include <charconv>

namespace plimsoll {
namespace {

// "([0]*3+[1]*58)*2": sums and products of lists of zeros and ones, as _eval_pattern evaluates them.
class Pattern {
 public:
  Pattern(std::string_view text, size_t most) : text_(text), most_(most) {}

  std::optional<std::vector<bool>> read() {
    std::vector<bool> list = sum();
    skip();
    if (is_wrong_ || !text_.empty()) return std::nullopt;
    return list;
  }

 private:
  void skip() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::vector<bool> sum() {
    std::vector<bool> list = product();
    while (!is_wrong_ && take('+')) {
      const std::vector<bool> more = product();
      list.insert(list.end(), more.begin(), more.end());
      check(list.size());
    }
    return list;
  }
  std::vector<bool> product() {
    std::vector<bool> list = primary();
    while (!is_wrong_ && take('*')) {
      const size_t times = number();
      check(times);
      check(list.size() * times);
      if (is_wrong_) break;
      const std::vector<bool> once = list;
      list.clear();
      for (size_t i = 0; i < times; ++i) list.insert(list.end(), once.begin(), once.end());
    }
    return list;
  }
  std::vector<bool> primary() {
    if (++depth_ > kDeepest) is_wrong_ = true;
    std::vector<bool> list;
    if (!is_wrong_ && take('(')) {
      list = sum();
      is_wrong_ |= !take(')');
    } else if (!is_wrong_ && take('[')) {
      if (!take(']')) list = items();
    } else {
      is_wrong_ = true;
    }
    --depth_;
    return list;
  }
  // The words of an argument that is one list are joined again by spaces.
  std::vector<bool> items() {
    std::vector<bool> list;
    while (!is_wrong_ && !take(']')) {
      list.push_back(number() != 0);
      check(list.size());
      take(',');
    }
    return list;
  }
  size_t number() {
    skip();
    size_t value = 0;
    const auto [end, failed] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (failed != std::errc()) is_wrong_ = true;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }
  void check(size_t size) { is_wrong_ |= size > most_; }

  static constexpr int kDeepest = 16;
  std::string_view text_;
  size_t most_;
  int depth_ = 0;
  bool is_wrong_ = false;
};

// The arguments whose part of the code has no recipe, where they ask for it.
void refuse(MegatronValues& values, std::string_view name, std::string_view why) {
  if (const MegatronArgument* const argument = values.take(name))
    values.wrong(*argument, fmt::format("not modelled yet of Megatron-LM: {}", why), "");
}
void refuse_unsupported(MegatronValues& values) {
  refuse(values, "--moe-router-fusion", "the fused router");
  refuse(values, "--moe-input-jitter-eps", "noise on the router's input");
  refuse(values, "--moe-latent-size", "experts on a latent size");
  refuse(values, "--moe-apply-probs-on-input", "probabilities applied before the experts");
  refuse(values, "--moe-use-grouped-tensor", "grouped tensors");
  refuse(values, "--moe-single-grouped-weight", "experts' weights in one tensor");
  refuse(values, "--moe-paged-stash", "the paged stash of experts' activations");
  refuse(values, "--moe-router-padding-for-quantization", "tokens padded for quantization");
  refuse(values, "--moe-router-padding-for-fp8", "tokens padded for quantization");
  refuse(values, "--moe-shared-expert-gate", "a gate on the shared experts");
  refuse(values, "--moe-expert-rank-capacity-factor", "a capacity of the ranks");
  refuse(values, "--overlap-moe-expert-parallel-comm", "micro-batches overlapped in pairs");
  refuse(values, "--moe-layer-recompute", "recompute of the experts' layers");
  refuse(values, "--moe-use-upcycling", "upcycling");
}

void read_routing(MegatronValues& values, MegatronExperts& e) {
  const MegatronArgument* const balancing = values.take("--moe-router-load-balancing-type");
  const std::vector<std::string> kinds = balancing ? balancing->values : std::vector<std::string>{"aux_loss"};
  const double coefficient = values.number("--moe-aux-loss-coeff").value_or(0);
  if (kinds.size() != 1)
    values.wrong(*balancing, "several kinds of balancing are not modelled yet", "one");
  else if (kinds[0] == "sinkhorn")
    e.routing = MegatronRouting::kSinkhorn;
  else if (kinds[0] == "aux_loss")
    e.has_auxiliary_loss = coefficient != 0;
  else if (kinds[0] == "seq_aux_loss")
    e.has_sequence_auxiliary_loss = coefficient != 0;
  else if (kinds[0] != "none")
    values.wrong(*balancing, fmt::format("\"{}\" is not modelled yet", kinds[0]),
                 "aux_loss, seq_aux_loss, sinkhorn or none");
  if (e.routing == MegatronRouting::kSinkhorn && coefficient != 0)
    values.wrong(*balancing, "sinkhorn has no auxiliary loss", "--moe-aux-loss-coeff 0");
  e.has_z_loss = values.number("--moe-z-loss-coeff").has_value();
  e.scores = values.word<MegatronScores>(
      "--moe-router-score-function", MegatronScores::kSoftmax,
      {{"softmax", MegatronScores::kSoftmax}, {"sigmoid", MegatronScores::kSigmoid}});
  e.routes_in_float32 = values.word<bool>("--moe-router-dtype", false, {{"fp32", true}});
  e.normalises_before_topk = values.flag("--moe-router-pre-softmax");
  e.scales_top_scores = values.number("--moe-router-topk-scaling-factor").value_or(0) != 0;
  if (const auto factor = values.number("--moe-expert-capacity-factor"); factor && *factor >= 0)
    e.capacity_factor = factor;
  const MegatronArgument* const pads = values.take("--moe-pad-expert-input-to-capacity");
  e.pads_to_capacity = pads != nullptr;
  if (pads && !e.capacity_factor)
    values.wrong(*pads, "needs a capacity", "--moe-expert-capacity-factor besides");
  values.flag("--moe-token-drop-policy");
  values.flag("--moe-router-bias-update-rate");
  values.flag("--moe-router-force-load-balancing");
}

void read_ranks_and_dispatch(MegatronValues& values, MegatronExperts& e) {
  e.expert_ranks = values.integer("--expert-model-parallel-size").value_or(1);
  e.tensor_ranks = values.integer("--expert-tensor-parallel-size");
  e.dispatcher =
      values.word<MegatronDispatcher>("--moe-token-dispatcher-type", MegatronDispatcher::kAllGather,
                                      {{"allgather", MegatronDispatcher::kAllGather},
                                       {"alltoall", MegatronDispatcher::kAllToAll},
                                       {"flex", MegatronDispatcher::kFlex}});
  values.word<bool>("--moe-flex-dispatcher-backend", true, {{"deepep", true}});
  for (const char* name : {"--moe-enable-deepep", "--moe-deepep-num-sms", "--moe-flex-dispatcher-num-sms"})
    values.take(name);
  e.has_grouped_gemm = values.flag("--moe-grouped-gemm");
  e.fuses_permutation = values.flag("--moe-permute-fusion");
  e.overlaps_shared_experts = values.flag("--moe-shared-expert-overlap");
  if (const MegatronArgument* const overlap = values.take("--moe-shared-expert-overlap"))
    values.wrong(*overlap, "shared experts overlapped with communication are not modelled yet", "");
}

Moe moe_of(MegatronValues& values, const Mlp& mlp, int64_t experts) {
  Moe moe{.experts = experts,
          .experts_per_token = values.integer("--moe-router-topk").value_or(2),
          .expert_intermediate = values.integer("--moe-ffn-hidden-size").value_or(mlp.intermediate),
          .shared_intermediate = values.integer("--moe-shared-expert-intermediate-size").value_or(0),
          .has_score_correction_bias = values.flag("--moe-router-enable-expert-bias"),
          .is_gated = mlp.is_gated,
          .activation = mlp.activation};
  moe.expert_groups = values.integer("--moe-router-num-groups").value_or(1);
  moe.groups_per_token = values.integer("--moe-router-group-topk").value_or(1);
  moe.is_group_limited = values.take("--moe-router-group-topk") != nullptr;
  return moe;
}

}  // namespace

std::optional<std::vector<bool>> expert_layers(std::string_view frequency, int64_t layers) {
  const auto count = static_cast<size_t>(layers);
  const bool is_list = frequency.find_first_of("[ ") != std::string_view::npos;
  const std::string text =
      frequency.find('[') == std::string_view::npos ? fmt::format("[{}]", frequency) : std::string(frequency);
  if (is_list) {
    auto list = Pattern(text, count).read();
    if (!list || list->size() != count) return std::nullopt;
    return list;
  }
  size_t every = 0;
  const auto [end, failed] = std::from_chars(frequency.data(), frequency.data() + frequency.size(), every);
  if (failed != std::errc() || end != frequency.data() + frequency.size() || every == 0) return std::nullopt;
  std::vector<bool> list(count);
  for (size_t i = 0; i < count; i += every) list[i] = true;
  return list;
}

void read_megatron_experts(MegatronValues& values, Architecture& a, MegatronExperts& experts) {
  const MegatronArgument* const count = values.take("--num-experts");
  const int64_t number = values.integer("--num-experts", 0).value_or(0);
  if (number == 0) return;
  const Mlp mlp = *a.layers.front().mlp;
  if (mlp.has_bias)
    values.wrong(*count, "experts with biases are not modelled yet", "--disable-bias-linear besides");
  refuse_unsupported(values);
  read_ranks_and_dispatch(values, experts);
  read_routing(values, experts);
  const Moe moe = moe_of(values, mlp, number);
  const MegatronArgument* const frequency = values.take("--moe-layer-freq");
  const std::string text = frequency ? fmt::format("{}", fmt::join(frequency->values, " ")) : "1";
  const auto has_experts = expert_layers(text, static_cast<int64_t>(a.layers.size()));
  if (!has_experts) {
    values.wrong(*frequency, fmt::format("\"{}\" is no pattern of {} layers", text, a.layers.size()),
                 "an integer, or a list like ([0]*3+[1]*58)");
    return;
  }
  for (size_t i = 0; i < a.layers.size(); ++i) {
    if (!(*has_experts)[i]) continue;
    a.layers[i].moe = moe;
    a.layers[i].mlp.reset();
  }
}

void read_latent_attention(MegatronValues& values, Architecture& a) {
  if (!values.flag("--multi-latent-attention")) return;
  const LatentAttention latent{.query_rank = values.integer("--q-lora-rank"),
                               .kv_rank = values.integer("--kv-lora-rank").value_or(32),
                               .nope_head_dim = values.integer("--qk-head-dim").value_or(128),
                               .rope_head_dim = values.integer("--qk-pos-emb-head-dim").value_or(64)};
  const int64_t value_dim = values.integer("--v-head-dim").value_or(128);
  values.flag("--rotary-scaling-factor");
  values.flag("--mscale");
  values.flag("--mscale-all-dim");
  const bool is_yarn = values.word<bool>("--rope-type", true, {{"yarn", true}, {"rope", false}});
  a.rope_type = is_yarn ? "yarn" : "default";
  for (Layer& layer : a.layers) {
    layer.attention.latent = latent;
    layer.attention.head_dim = latent.nope_head_dim + latent.rope_head_dim;
    layer.attention.value_head_dim = value_dim;
    layer.attention.rotary_dim = latent.rope_head_dim;
  }
}

}  // namespace plimsoll
