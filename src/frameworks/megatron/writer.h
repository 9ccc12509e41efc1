// What the recipes of Megatron-Core's modules are written with: parameters by name below the current path.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "frameworks/megatron/forward.h"
#include "program/ops_megatron.h"
#include "program/recorder.h"

namespace plimsoll::megatron {

class Writer {
 public:
  Writer(Forward& forward, const Architecture& architecture, const ResolvedJob& job, const Stage& stage,
         const Chunk& chunk);

  Recorder& recorder() { return r_; }
  const Architecture& architecture() const { return a_; }
  const ResolvedJob& job() const { return job_; }
  const MegatronSettings& settings() const { return *job_.megatron; }
  const Stage& stage() const { return stage_; }
  const Chunk& chunk() const { return chunk_; }
  Forward& forward() { return f_; }
  DType dtype() const;
  int64_t tensor_ranks() const { return job_.mesh.tensor; }
  // Ranks that each hold a part of the sequence between the linears.
  int64_t sequence_ranks() const { return settings().has_sequence_parallel ? job_.mesh.tensor : 1; }
  int64_t multiprocessors() const { return job_.gpu_multiprocessors; }
  bool is_te() const { return settings().layers == MegatronLayers::kTransformerEngine; }

  class Module {
   public:
    Module(Writer& writer, std::string_view name)
        : writer_(writer), old_length_(writer.path_.size()), module_(writer.r_.module, {}) {
      if (!writer.path_.empty()) writer.path_ += '.';
      writer.path_ += name;
      writer.r_.module = writer.f_.program.module(writer.path_);
    }
    ~Module() { writer_.path_.resize(old_length_); }
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

   private:
    Writer& writer_;
    size_t old_length_;
    With<ModuleId> module_;
  };

  // Calls within the scope are computed again in the backward: a reentrant checkpoint of (hidden, mask).
  class Checkpoint {
   public:
    Checkpoint(Writer& writer, std::string_view name, const Value& hidden, const Value& mask);
    ~Checkpoint();
    Checkpoint(const Checkpoint&) = delete;
    Checkpoint& operator=(const Checkpoint&) = delete;
    void set_result(const Value& hidden) const;

   private:
    Writer& writer_;
    RegionId region_;
  };

  // The parameter of that name below the current path; undefined when there is none.
  Value parameter(std::string_view name) const;
  // A tensor of that name that the first forward makes here.
  Value made_once(std::string_view name, const Layout& layout, DType dtype);
  // What stands for the gradient of the weight at the current path where it is added to the gradient buffer
  // by its product; undefined where it isn't.
  Value dummy_gradient();
  Value dummy_gradient_of(const Value& weight);
  // The buffer that Megatron-Core's functions share (get_global_memory_buffer, "mpu"), of at least this size:
  // a new one takes its place where it is too small.
  Value global_buffer(const Layout& layout);
  // What a module holds on to until its next call.
  void keep(const Value& value);
  const std::string& path() const { return path_; }
  // What a library makes here, or right after the last op of that kind.
  void made_once(MadeOnce::Kind kind, std::optional<OpKind> after = std::nullopt);
  void hold(Value value) { held_.push_back(std::move(value)); }  // to the end of the forward and beyond

 private:
  Forward& f_;
  const Architecture& a_;
  const ResolvedJob& job_;
  const Stage& stage_;
  const Chunk& chunk_;
  Recorder r_;
  std::string path_;
  std::unordered_map<std::string, Value> parameters_, made_;
  uint32_t next_statement() const {  // where what is made once can be made: not within a checkpoint
    return checkpoint_begins_.value_or(static_cast<uint32_t>(f_.program.statements.size()));
  }

  std::vector<Value> held_;
  std::optional<uint32_t> checkpoint_begins_;
  std::set<MadeOnce::Kind> made_by_libraries_;
  Value global_buffer_;
};

// A linear's result and the bias that the caller adds (skip_bias_add).
struct Projected {
  Value result, bias;
};

// layer.cc: a transformer layer at the current path, [s, b, h] -> [s, b, h].
Value transformer_layer(Writer& w, const Layer& layer, Value hidden, const Value& mask);
// attention.cc: the core of attention on q, k, v [s, b, heads / t, d]; the result [s, b, heads / t * d].
Value core_attention(Writer& w, const Attention& attention, std::vector<Value> qkv, const Value& mask);
// latent_attention.cc: attention by way of low ranks, with its norm.
Projected latent_attention(Writer& w, const Attention& attention, const Value& hidden, const Value& mask);
// expert_layer.cc: the norm and the experts, [s, b, h] -> [s, b, h].
Value expert_layer(Writer& w, const Moe& moe, const Value& hidden);
// modules.cc
Value norm(Writer& w, std::string_view name, const Value& x);
// The column-wise linear `name`, behind its norm (in Transformer Engine one module, otherwise `norm_name`).
// `adds_bias`: otherwise the bias is left to the caller.
Projected normed_column_linear(Writer& w, std::string_view norm_name, std::string_view name, const Value& x,
                               bool adds_bias);
Projected te_normed_column_linear(Writer& w, std::string_view name, const Value& x, bool adds_bias);
// A column-wise linear without a norm; its bias is left to the caller.
Projected column_linear(Writer& w, std::string_view name, const Value& x);
// The row-wise linear `name`; its bias is left to the caller.
Projected row_linear(Writer& w, std::string_view name, Value x);
// embedding.cc: ids and positions [b, s] -> [s, b, h].
Value embedding(Writer& w, const Value& ids, const Value& positions);
// loss.cc: the head on the last norm's result and the loss of each token, fp32 [b, s]; labels [b, s].
Value head_loss(Writer& w, Value hidden, const Value& labels);
// loss_func of pretrain_gpt.py and forward_step_calc_loss: the loss of the micro-batch from that of each
// token.
Value micro_batch_loss(Writer& w, Value losses, Value loss_mask);

}  // namespace plimsoll::megatron
