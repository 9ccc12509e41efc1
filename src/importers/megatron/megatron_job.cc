#include "importers/megatron/megatron_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "importers/megatron/experts.h"
#include "importers/megatron/keys.h"
#include "importers/megatron/values.h"

namespace plimsoll {
namespace {

// The vocabulary of GPT-2's tokenizer, which --vocab-file and --merge-file stand for.
constexpr int64_t kGpt2Vocabulary = 50257;

class JobReader : private MegatronValues {
 public:
  JobReader(const MegatronArguments& arguments, const MegatronJobOptions& options)
      : MegatronValues(arguments), options_(options) {}

  Result<MegatronJob> read() {
    PLIMSOLL_CHECK(refuse_unsupported());
    out_.job.framework = Framework::kMegatron;
    out_.job.megatron.emplace();
    PLIMSOLL_CHECK(read_mesh());
    PLIMSOLL_CHECK(read_settings());
    PLIMSOLL_CHECK(read_pipeline());
    PLIMSOLL_CHECK(read_model());
    if (error_) return fail(*error_);
    note_unknown();
    return std::move(out_);
  }

 private:
  Result<void> refuse_unsupported() {
    for (const MegatronArgument& argument : in_.all) {
      const std::string_view why = why_unsupported(argument.name);
      if (!why.empty())
        return fail({.position = {.file = in_.file, .key = argument.name, .line = argument.line},
                     .message = fmt::format("not modelled yet of Megatron-LM: {}", why)});
    }
    return {};
  }

  // ---- groups of arguments ----

  Result<void> read_mesh() {
    ParallelChoice& parallel = out_.job.parallel;
    parallel.tensor = integer("--tensor-model-parallel-size").value_or(1);
    parallel.pipeline = integer("--pipeline-model-parallel-size").value_or(1);
    out_.job.megatron->has_sequence_parallel = flag("--sequence-parallel") && parallel.tensor > 1;
    const MegatronArgument* const context = take("--context-parallel-size");
    if (integer("--context-parallel-size").value_or(1) != 1)
      wrong(*context, "context parallelism of Megatron-LM is not modelled yet", "1");
    out_.job.hardware.gpus = options_.gpus;
    BatchChoice& batch = out_.job.batch;
    batch.micro_batch = required("--micro-batch-size");
    batch.global_batch = integer("--global-batch-size");
    batch.sequence = required("--seq-length");
    return {};
  }

  Result<void> read_settings() {
    MegatronSettings& m = *out_.job.megatron;
    m.layers = word<MegatronLayers>(
        "--transformer-impl", MegatronLayers::kTransformerEngine,
        {{"local", MegatronLayers::kLocal}, {"transformer_engine", MegatronLayers::kTransformerEngine}});
    m.attention = word<MegatronAttention>("--attention-backend", MegatronAttention::kAutomatic,
                                          {{"auto", MegatronAttention::kAutomatic},
                                           {"flash", MegatronAttention::kFlash},
                                           {"unfused", MegatronAttention::kUnfused},
                                           {"local", MegatronAttention::kLocal}});
    const MegatronArgument *const bf16 = take("--bf16"), *const fp16 = take("--fp16");
    if (bf16 && fp16) wrong(*fp16, "contradicts --bf16", "one of them");
    if (const MegatronArgument* const wide = take("--accumulate-allreduce-grads-in-fp32"); wide && fp16)
      wrong(*wide, "gradients of fp16 accumulated in fp32 are not modelled yet", "");
    word<bool>("--optimizer", true, {{"adam", true}});
    if (bf16) m.precision = MegatronPrecision::kBFloat16;
    if (fp16) m.precision = MegatronPrecision::kFloat16;
    if (!bf16 && !fp16 && !error_)
      error_ = Error{.position = {.file = in_.file},
                     .message = "training in fp32 of Megatron-LM is not modelled yet",
                     .expected = "--bf16 or --fp16"};
    m.vocab_divisor = integer("--make-vocab-size-divisible-by").value_or(m.vocab_divisor);
    m.has_distributed_optimizer = flag("--use-distributed-optimizer");
    m.optimizer_instances = integer("--num-distributed-optimizer-instances").value_or(1);
    m.overlaps_grad_reduce = flag("--overlap-grad-reduce");
    m.overlaps_param_gather = flag("--overlap-param-gather");
    m.fuses_weight_gradients = !flag("--no-gradient-accumulation-fusion");
    m.is_deterministic = flag("--deterministic-mode");
    m.has_mask_in_dataloader = !flag("--no-create-attention-mask-in-dataloader");
    flag("--create-attention-mask-in-dataloader");
    m.fuses_masked_softmax = !flag("--no-masked-softmax-fusion");
    m.has_persistent_layer_norm = !flag("--no-persist-layer-norm");
    m.has_transformer_engine = in_.has_transformer_engine;
    m.fuses_cross_entropy = flag("--cross-entropy-loss-fusion");
    word<bool>("--cross-entropy-fusion-impl", true, {{"native", true}});
    m.fuses_rope = !flag("--no-rope-fusion");
    m.is_rope_interleaved = flag("--rotary-interleaved");
    read_recompute();
    m.scales_by_layer = flag("--apply-query-key-layer-scaling");
    m.logs_params_norm = flag("--log-params-norm");
    m.counts_zeros = flag("--log-num-zeros-in-grad");
    m.clip_gradients = number("--clip-grad").value_or(m.clip_gradients);
    const auto workspace = in_.environment.find("CUBLAS_WORKSPACE_CONFIG");
    m.has_fixed_cublas_workspace = workspace != in_.environment.end() && workspace->second == ":4096:8";
    return {};
  }

  void read_recompute() {
    MegatronSettings& m = *out_.job.megatron;
    const MegatronArgument* const granularity = take("--recompute-granularity");
    const MegatronArgument* const activations = take("--recompute-activations");
    const bool is_full = granularity && granularity->values == std::vector<std::string>{"full"};
    if (granularity && !is_full) wrong(*granularity, "selective recompute is not modelled yet", "full");
    if (activations) wrong(*activations, "selective recompute is not modelled yet", "full");
    m.recompute_layers = integer("--recompute-num-layers").value_or(1);
    const auto method = word<MegatronRecompute>(
        "--recompute-method", MegatronRecompute::kNone,
        {{"uniform", MegatronRecompute::kFullUniform}, {"block", MegatronRecompute::kFullBlock}});
    if (is_full && method == MegatronRecompute::kNone)
      wrong(*granularity, "full recompute needs a method", "--recompute-method uniform or block");
    if (is_full) m.recompute = method;
  }

  Result<void> read_pipeline() {
    MegatronSettings& m = *out_.job.megatron;
    m.first_stage_layers = integer("--decoder-first-pipeline-num-layers");
    m.last_stage_layers = integer("--decoder-last-pipeline-num-layers");
    const MegatronArgument* const by_layers = take("--num-layers-per-virtual-pipeline-stage");
    const MegatronArgument* const by_stages = take("--num-virtual-stages-per-pipeline-rank");
    if (by_layers && by_stages) wrong(*by_stages, "contradicts " + by_layers->name, "one of them");
    m.virtual_stages = integer("--num-virtual-stages-per-pipeline-rank").value_or(1);
    if (const auto layers = integer("--num-layers-per-virtual-pipeline-stage")) {
      const int64_t all = required("--num-layers").value_or(1), ranks = out_.job.parallel.pipeline;
      if (all % (ranks * *layers) != 0)
        wrong(*by_layers, fmt::format("{} layers don't divide over {} stages of {}", all, ranks, *layers),
              "");
      else
        m.virtual_stages = all / (ranks * *layers);
    }
    m.microbatch_group = integer("--microbatch-group-size-per-virtual-pipeline-stage");
    m.receives_early = flag("--overlap-p2p-communication-warmup-flush");
    if (m.virtual_stages > 1 && out_.job.parallel.pipeline <= 2)
      wrong(by_layers ? *by_layers : *by_stages, "an interleaved pipeline of 2 stages is not modelled yet",
            "");
    return {};
  }

  Result<void> read_model() {
    Architecture& a = out_.architecture;
    a.name = in_.file;
    a.family = "megatron_gpt";
    a.class_name = "GPTModel";
    const int64_t layers = required("--num-layers").value_or(1);
    a.hidden = required("--hidden-size").value_or(1);
    a.embedding_dim = a.hidden;
    a.max_position = a.position_rows = required("--max-position-embeddings").value_or(1);
    read_vocabulary();
    a.is_tied = !flag("--untie-embeddings-and-output-weights");
    a.position = word<PositionKind>("--position-embedding-type", PositionKind::kLearned,
                                    {{"learned_absolute", PositionKind::kLearned},
                                     {"rope", PositionKind::kRotary},
                                     {"none", PositionKind::kNone}});
    if (flag("--use-rotary-position-embeddings")) a.position = PositionKind::kRotary;
    a.norm = word<Norm>("--normalization", Norm{.kind = NormKind::kLayerNorm, .has_bias = true},
                        {{"LayerNorm", Norm{.kind = NormKind::kLayerNorm, .has_bias = true}},
                         {"RMSNorm", Norm{.kind = NormKind::kRmsNorm}}});
    a.attention_dropout = number("--attention-dropout").value_or(0.1);
    a.residual_dropout = a.embedding_dropout = number("--hidden-dropout").value_or(0.1);
    Layer layer;
    layer.attention.heads = required("--num-attention-heads").value_or(1);
    layer.attention.kv_heads = layer.attention.heads;
    layer.attention.head_dim = layer.attention.value_head_dim =
        integer("--kv-channels").value_or(a.hidden / layer.attention.heads);
    if (a.position == PositionKind::kRotary) {
      const double share = number("--rotary-percent").value_or(1);
      layer.attention.rotary_dim =
          static_cast<int64_t>(static_cast<double>(layer.attention.head_dim) * share);
    }
    if (flag("--qk-layernorm")) layer.attention.head_norm = HeadNorm::kPerHead;
    const bool has_bias = !flag("--disable-bias-linear"), is_gated = flag("--swiglu");
    // Source: validate_args: without biases GELU isn't fused with them.
    out_.job.megatron->fuses_bias_activation = !flag("--no-bias-gelu-fusion") && (has_bias || is_gated);
    layer.attention.query_bias = layer.attention.key_bias = layer.attention.value_bias =
        layer.attention.output_bias = has_bias;
    layer.attention.is_fused_qkv = layer.attention.is_fused_by_group = true;
    layer.mlp = Mlp{.intermediate = integer("--ffn-hidden-size").value_or(ffn_width(a.hidden, is_gated)),
                    .is_gated = is_gated,
                    .is_fused_gate_up = is_gated,
                    .has_bias = has_bias,
                    .activation = is_gated ? Activation::kSilu : Activation::kGelu};
    a.layers.assign(static_cast<size_t>(std::min(layers, kMostLayers)), layer);
    read_megatron_experts(*this, a, out_.job.megatron->experts);
    read_latent_attention(*this, a);
    list_parameters();
    return {};
  }

  void read_vocabulary() {
    Architecture& a = out_.architecture;
    const MegatronArgument* const tokenizer = take("--tokenizer-type");
    const std::string type = tokenizer && !tokenizer->values.empty() ? tokenizer->values.front() : "";
    const auto size = integer("--vocab-size");
    a.vocab = size.value_or(kGpt2Vocabulary);
    if (size) return;
    if (!type.empty() && type != "GPT2BPETokenizer")
      wrong(*tokenizer, fmt::format("how many tokens {} has isn't known", type), "--vocab-size besides");
    // GPT-2's tokenizer needs both; a vocabulary alone is another's (BERT's word pieces).
    const MegatronArgument* const words = take("--vocab-file");
    if (words && !take("--merge-file"))
      wrong(*words, "is no vocabulary of GPT-2's tokenizer without --merge-file", "--vocab-size besides");
    a.notes.push_back(fmt::format("the vocabulary is that of GPT-2's tokenizer, {} tokens", kGpt2Vocabulary));
  }

  // Source: validate_args: 8/3 of the hidden size, rounded down to a multiple of 64, where it is gated.
  static int64_t ffn_width(int64_t hidden, bool is_gated) {
    constexpr int64_t kMultiple = 64;
    return is_gated ? 4 * hidden * 2 / 3 / kMultiple * kMultiple : 4 * hidden;
  }

  // Of the whole model, without what ranks pad.
  void list_parameters() {
    Architecture& a = out_.architecture;
    const auto add = [&](std::string name, std::vector<int64_t> shape, std::optional<int> layer = {}) {
      a.parameters.push_back({.name = std::move(name), .shape = std::move(shape), .layer = layer});
    };
    const auto norm = [&](const std::string& name, std::optional<int> layer = {}) {
      add(name + ".weight", {a.hidden}, layer);
      if (a.norm.has_bias) add(name + ".bias", {a.hidden}, layer);
    };
    const auto linear = [&](const std::string& name, int64_t out, int64_t in, bool has_bias, int layer) {
      add(name + ".weight", {out, in}, layer);
      if (has_bias) add(name + ".bias", {out}, layer);
    };
    add("embedding.word_embeddings.weight", {a.vocab, a.hidden});
    if (a.position == PositionKind::kLearned)
      add("embedding.position_embeddings.weight", {a.position_rows, a.hidden});
    for (size_t i = 0; i < a.layers.size(); ++i) {
      const Attention& attention = a.layers[i].attention;
      const std::string path = fmt::format("decoder.layers.{}.", i);
      const int layer = static_cast<int>(i);
      const int64_t queries = attention.heads * attention.head_dim;
      norm(path + "input_layernorm", layer);
      if (attention.latent) {
        list_latent(attention, path + "self_attention.", layer);
      } else {
        linear(path + "self_attention.linear_proj", a.hidden, queries, attention.output_bias, layer);
        linear(path + "self_attention.linear_qkv", queries + 2 * attention.kv_heads * attention.head_dim,
               a.hidden, attention.query_bias, layer);
      }
      norm(path + "pre_mlp_layernorm", layer);
      if (a.layers[i].moe) {
        list_experts(*a.layers[i].moe, path + "mlp.", layer);
        continue;
      }
      const Mlp& mlp = *a.layers[i].mlp;
      linear(path + "mlp.linear_fc1", mlp.intermediate * (mlp.is_gated ? 2 : 1), a.hidden, mlp.has_bias,
             layer);
      linear(path + "mlp.linear_fc2", a.hidden, mlp.intermediate, mlp.has_bias, layer);
    }
    norm("decoder.final_layernorm");
    if (!a.is_tied) add("output_layer.weight", {a.vocab, a.hidden});
  }

  void list_latent(const Attention& attention, const std::string& path, int layer) {
    std::vector<ParameterTensor>& all = out_.architecture.parameters;
    const LatentAttention& latent = *attention.latent;
    const int64_t hidden = out_.architecture.hidden, heads = attention.heads;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      all.push_back({.name = path + name, .shape = std::move(shape), .layer = layer});
    };
    const auto norm = [&](const std::string& name, int64_t width) {
      if (attention.head_norm == HeadNorm::kNone) return;
      add(name + ".weight", {width});
      if (out_.architecture.norm.has_bias) add(name + ".bias", {width});
    };
    add("linear_proj.weight", {hidden, heads * attention.value_head_dim});
    if (attention.output_bias) add("linear_proj.bias", {hidden});
    const int64_t query_input = latent.query_rank.value_or(hidden);
    if (latent.query_rank) add("linear_q_down_proj.weight", {query_input, hidden});
    if (latent.query_rank) norm("q_layernorm", query_input);
    add("linear_q_up_proj.weight", {heads * attention.head_dim, query_input});
    add("linear_kv_down_proj.weight", {latent.kv_rank + latent.rope_head_dim, hidden});
    norm("kv_layernorm", latent.kv_rank);
    add("linear_kv_up_proj.weight",
        {heads * (latent.nope_head_dim + attention.value_head_dim), latent.kv_rank});
  }

  void list_experts(const Moe& moe, const std::string& path, int layer) {
    std::vector<ParameterTensor>& all = out_.architecture.parameters;
    const int64_t hidden = out_.architecture.hidden;
    const auto add = [&](const std::string& name, int64_t out, int64_t in, bool is_expert) {
      all.push_back({.name = path + name, .shape = {out, in}, .layer = layer, .is_expert = is_expert});
    };
    const int64_t halves = moe.is_gated ? 2 : 1;
    add("router.weight", moe.experts, hidden, false);
    for (int64_t e = 0; e < moe.experts; ++e) {
      const std::string expert = fmt::format("experts.local_experts.{}.", e);
      add(expert + "linear_fc1.weight", moe.expert_intermediate * halves, hidden, true);
      add(expert + "linear_fc2.weight", hidden, moe.expert_intermediate, true);
    }
    if (moe.shared_intermediate == 0) return;
    add("shared_experts.linear_fc1.weight", moe.shared_intermediate * halves, hidden, false);
    add("shared_experts.linear_fc2.weight", hidden, moe.shared_intermediate, false);
  }

  void note_unknown() {
    std::vector<std::string> unknown;
    int64_t without_bytes = 0;
    for (const MegatronArgument& argument : in_.all) {
      if (taken_.contains(argument.name)) continue;
      if (is_without_bytes(argument.name))
        ++without_bytes;
      else
        unknown.push_back(argument.name);
    }
    out_.architecture.notes.push_back(fmt::format(
        "{}: taken for arguments of pretrain_gpt.py; {} arguments read, {} on which no byte depends",
        in_.file, in_.all.size() - unknown.size() - static_cast<size_t>(without_bytes), without_bytes));
    if (!unknown.empty())
      out_.architecture.notes.push_back(
          fmt::format("{}: {} arguments are not known here and were left out: {}", in_.file, unknown.size(),
                      fmt::join(unknown, ", ")));
  }

  static constexpr int64_t kMostLayers = 10'000;
  const MegatronJobOptions& options_;
  MegatronJob out_;
};

}  // namespace

Result<MegatronJob> megatron_job(const MegatronArguments& arguments, const MegatronJobOptions& options) {
  return JobReader(arguments, options).read();
}

}  // namespace plimsoll
