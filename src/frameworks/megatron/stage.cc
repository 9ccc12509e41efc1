#include "frameworks/megatron/stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/block.h"
#include "frameworks/megatron/layer_parameters.h"

namespace plimsoll::megatron {
namespace {

constexpr const char* kFinalNorm = "decoder.final_layernorm";

class ParameterLister {
 public:
  ParameterLister(const Architecture& a, const ResolvedJob& job, const Chunk& chunk)
      : a_(a), job_(job), chunk_(chunk), t_(job.mesh.tensor) {}

  std::vector<StageParameter> list() {
    if (chunk_.has_embedding) embedding();
    for (int64_t i = 0; i < chunk_.layers; ++i)
      layer(fmt::format("decoder.layers.{}.", i), a_.layers[static_cast<size_t>(chunk_.first_layer + i)]);
    if (chunk_.has_head) head();
    return std::move(out_);
  }

 private:
  void matrix(std::string name, int64_t out, int64_t in, bool is_split = true) {
    out_.push_back({.name = std::move(name), .shape = {out, in}, .is_split = is_split});
  }
  void vector(std::string name, int64_t elements, bool is_split = false) {
    out_.push_back({.name = std::move(name), .shape = {elements}, .is_decayed = false, .is_split = is_split});
  }
  void norm(const std::string& name, int64_t width, std::string_view separator = ".") {
    const bool is_apex = name == kFinalNorm ? !has_te_final_norm(a_, job_) : !is_te();
    vector(name + std::string(separator) + "weight", width);
    out_.back().is_made_on_host = is_apex;
    if (!a_.norm.has_bias) return;
    vector(name + std::string(separator) + "bias", width);
    out_.back().is_made_on_host = is_apex;
  }
  bool is_te() const { return job_.megatron->layers == MegatronLayers::kTransformerEngine; }

  void embedding() {
    matrix("embedding.word_embeddings.weight", padded_vocab(a_, job_) / t_, a_.hidden);
    if (a_.position != PositionKind::kLearned) return;
    matrix("embedding.position_embeddings.weight", a_.position_rows, a_.hidden, false);
    out_.back().is_made_on_host = true;
  }

  // A column-wise linear behind its norm: one module in Transformer Engine, two otherwise.
  void normed_linear(const std::string& name, int64_t out, int64_t in, bool has_bias) {
    if (is_te()) norm(name, in, ".layer_norm_");
    matrix(name + ".weight", out, in);
    if (has_bias) vector(name + ".bias", out, true);
  }

  void append(std::vector<StageParameter> parameters) {
    for (StageParameter& p : parameters) out_.push_back(std::move(p));
  }

  void layer(const std::string& path, const Layer& layer) {
    if (layer.attention.latent) {
      norm(path + "input_layernorm", a_.hidden);
      append(latent_parameters(a_, job_, layer.attention, path + "self_attention."));
    } else {
      attention(path, layer.attention);
    }
    if (!layer.moe) return mlp(path, *layer.mlp);
    norm(path + "pre_mlp_layernorm", a_.hidden);
    append(expert_parameters(a_, job_, *layer.moe, path + "mlp."));
  }

  void attention(const std::string& path, const Attention& attention) {
    const int64_t queries = attention.heads * attention.head_dim,
                  keys = attention.kv_heads * attention.head_dim;
    if (!is_te()) norm(path + "input_layernorm", a_.hidden);
    matrix(path + "self_attention.linear_proj.weight", a_.hidden, queries / t_);
    if (attention.output_bias) vector(path + "self_attention.linear_proj.bias", a_.hidden);
    normed_linear(path + "self_attention.linear_qkv", (queries + 2 * keys) / t_, a_.hidden,
                  attention.query_bias);
    if (attention.head_norm == HeadNorm::kPerHead) {
      norm(path + "self_attention.q_layernorm", attention.head_dim);
      norm(path + "self_attention.k_layernorm", attention.head_dim);
    }
  }

  void mlp(const std::string& path, const Mlp& mlp) {
    if (!is_te()) norm(path + "pre_mlp_layernorm", a_.hidden);
    const int64_t width = mlp.intermediate * (mlp.is_gated ? 2 : 1);
    normed_linear(path + "mlp.linear_fc1", width / t_, a_.hidden, mlp.has_bias);
    matrix(path + "mlp.linear_fc2.weight", a_.hidden, mlp.intermediate / t_);
    if (mlp.has_bias) vector(path + "mlp.linear_fc2.bias", a_.hidden);
  }

  void head() {
    norm(kFinalNorm, a_.hidden);
    if (a_.is_tied && chunk_.has_embedding) return;
    matrix("output_layer.weight", padded_vocab(a_, job_) / t_, a_.hidden);
    out_.back().is_shared = a_.is_tied;
  }

  const Architecture& a_;
  const ResolvedJob& job_;
  const Chunk& chunk_;
  int64_t t_;
  std::vector<StageParameter> out_;
};

Error indivisible(std::string message, std::string hint) {
  return {.message = std::move(message), .expected = "as many on each stage", .hint = std::move(hint)};
}

}  // namespace

int64_t StageParameter::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

int64_t padded_vocab(const Architecture& architecture, const ResolvedJob& job) {
  return round_up(architecture.vocab, job.megatron->vocab_divisor * job.mesh.tensor);
}

bool has_te_final_norm(const Architecture& architecture, const ResolvedJob& job) {
  if (job.megatron->layers == MegatronLayers::kTransformerEngine) return true;
  const auto has_experts = [](const Layer& layer) { return layer.moe.has_value(); };
  return job.megatron->has_transformer_engine && std::ranges::none_of(architecture.layers, has_experts);
}

std::vector<StageParameter> parameters_of(const Architecture& architecture, const ResolvedJob& job,
                                          const Chunk& chunk) {
  return ParameterLister(architecture, job, chunk).list();
}

Result<Stage> stage_of(const Architecture& architecture, const ResolvedJob& job, int64_t pipeline_rank) {
  const MegatronSettings& m = *job.megatron;
  const int64_t ranks = job.mesh.pipeline, all = static_cast<int64_t>(architecture.layers.size());
  const int64_t ends = (m.first_stage_layers ? 1 : 0) + (m.last_stage_layers ? 1 : 0);
  const int64_t middle = all - m.first_stage_layers.value_or(0) - m.last_stage_layers.value_or(0);
  const int64_t stages = ranks - ends;
  if (middle < 0 || (stages > 0 ? middle % stages : middle) != 0)
    return fail(indivisible(fmt::format("{} layers don't divide over {} pipeline stages", middle, stages),
                            "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers"));
  const auto layers_of = [&](int64_t rank) {
    if (rank == 0 && m.first_stage_layers) return *m.first_stage_layers;
    if (rank == ranks - 1 && m.last_stage_layers) return *m.last_stage_layers;
    return middle / stages;
  };
  const int64_t own = layers_of(pipeline_rank), v = m.virtual_stages;
  if (own % v != 0)
    return fail(indivisible(fmt::format("{} layers of a stage don't divide over {} virtual stages", own, v),
                            "--num-layers-per-virtual-pipeline-stage"));
  Stage stage{.rank = pipeline_rank, .ranks = ranks};
  int64_t before = 0;
  for (int64_t r = 0; v == 1 && r < pipeline_rank; ++r) before += layers_of(r);
  for (int64_t c = 0; c < v; ++c) {
    const int64_t layers = own / v;
    const int64_t first = v == 1 ? before : c * (all / v) + pipeline_rank * layers;
    stage.chunks.push_back({.first_layer = first,
                            .layers = layers,
                            .has_embedding = pipeline_rank == 0 && c == 0,
                            .has_head = pipeline_rank == ranks - 1 && c == v - 1});
  }
  return stage;
}

}  // namespace plimsoll::megatron
