#include "frameworks/megatron/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "frameworks/megatron/interleaved.h"
#include "frameworks/megatron/optimizer_state.h"
#include "program/ops.h"

namespace plimsoll::megatron {
namespace {

class TrainingBuilder : public ScheduleHost {
 public:
  TrainingBuilder(const Architecture& architecture, const ResolvedJob& job, Stage stage, PassList* passes)
      : a_(architecture),
        job_(job),
        stage_(std::move(stage)),
        passes_(passes ? *passes : own_passes_),
        r_(program_, Recorder::Mode::kComplete),
        optimizer_(r_, job) {}

  Result<Program> build() {
    program_.is_complete = true;
    for (size_t c = 0; c < stage_.chunks.size(); ++c) {
      PLIMSOLL_TRY(forward, record_forward(a_, job_, stage_, stage_.chunks[c]));
      PLIMSOLL_CHECK(passes_.run("forward", forward.program, [] { return Result<void>(); }));
      forwards_.push_back(std::move(forward));
      chunks_.emplace_back(r_, a_, job_, stage_, c);
    }
    PLIMSOLL_CHECK(check_size());
    micro_.emplace(r_, job_, chunks_, forwards_);
    PLIMSOLL_CHECK(run("load", [&] { return load(); }));
    for (int iteration = 1; iteration <= 2; ++iteration) {
      iteration_ = iteration;
      PLIMSOLL_CHECK(run("differentiate", [&] { return iterate(); }));
      PLIMSOLL_CHECK(run("optimizer", [&] { return step(); }));
    }
    r_.finish();
    PLIMSOLL_CHECK(passes_.check(program_));
    return std::move(program_);
  }

 private:
  template <typename Pass>
  Result<void> run(std::string_view name, Pass&& pass) {
    return passes_.run(name, program_, std::forward<Pass>(pass));
  }

  // Every micro-batch of two iterations is written.
  Result<void> check_size() const {
    constexpr int64_t kCompleteToForward = 6;  // a guess of how much larger a complete program is
    constexpr int64_t kMostStatements = 10'000'000;
    int64_t statements = 0;
    for (const Forward& forward : forwards_)
      statements += static_cast<int64_t>(forward.program.statements.size()) * kCompleteToForward;
    if (job_.batch.accumulation <= kMostStatements / (2 * statements + 1)) return {};
    return fail(
        {.message = fmt::format("{} micro-batches a step are too many to be played", job_.batch.accumulation),
         .expected = fmt::format("at most {} of such a model", kMostStatements / (2 * statements + 1)),
         .hint = "a smaller --global-batch-size takes as much memory"});
  }

  // ---- sections ----

  // Everything until the next call belongs to this phase.
  void begin(std::string_view phase) {
    end();
    phase_ = fmt::format("{}{}", phase, iteration_);
    first_statement_ = static_cast<uint32_t>(program_.statements.size());
  }
  void begin(std::string_view phase, int64_t micro_batch) override {
    begin(phase);
    phase_ += fmt::format(".{}", micro_batch);
  }
  void end() {
    if (phase_.empty()) return;
    program_.sections.push_back({.name = phase_,
                                 .first_statement = first_statement_,
                                 .last_statement = static_cast<uint32_t>(program_.statements.size())});
    program_.schedule.push_back({phase_, static_cast<uint32_t>(program_.sections.size() - 1)});
    phase_.clear();
  }

  Value scalar(DType dtype = DType::kFloat32) { return ops::zeros(r_, {1}, dtype); }
  void passing_scalar() { ops::from_host(r_, {1}, DType::kFloat32); }

  // ---- building ----

  Result<void> load() {
    const With<bool> no_grad(r_.is_grad_enabled, false);
    begin("load");
    phase_ = "load";
    {
      const With<Category> category(r_.category, Category::kTemporary);
      if (has_experts()) auxiliary_scale_ = ops::ones(r_, {1}, DType::kFloat32);
      start_time_ = ops::from_host(r_, {1}, DType::kFloat64);
    }
    for (ChunkState& chunk : chunks_) {
      chunk.build();
      if (a_.layers.front().attention.latent)
        make_latent_tables();
      else if (a_.position == PositionKind::kRotary)
        make_frequencies();
    }
    for (ChunkState& chunk : chunks_) chunk.wrap();
    optimizer_.make(chunks_);
    end();
    return {};
  }

  bool has_experts() const {
    return std::ranges::any_of(a_.layers, [](const Layer& layer) { return layer.moe.has_value(); });
  }

  // RotaryEmbedding.inv_freq
  void make_frequencies() {
    const With<Category> category(r_.category, Category::kBuffer);
    const With<ModuleId> module(r_.module, program_.module("rotary_pos_emb.inv_freq"));
    frequencies_.push_back(ops::empty(r_, {a_.layers.front().attention.rotary_dim / 2}, DType::kFloat32));
  }

  // Of each layer's YarnRotaryEmbedding: frequencies, and cosines and sines of the positions that it was
  // trained with. The fused kernel's own replace them at once. Source: MLATransformerConfig
  // (original_max_position_embeddings), yarn_rotary_pos_embedding.py.
  void make_latent_tables() {
    constexpr int64_t kOriginalPositions = 4096;
    const With<Category> category(r_.category, Category::kBuffer);
    const With<ModuleId> module(r_.module, program_.module("rotary_pos_emb"));
    const int64_t dim = a_.layers.front().attention.latent->rope_head_dim;
    const bool is_yarn = a_.rope_type == "yarn";
    const bool is_fused = job_.megatron->fuses_rope && a_.position == PositionKind::kRotary;
    const DType dtype = dtype_of(job_.megatron->precision);
    for (int64_t i = 0; i < chunk_layers(); ++i) {
      for (int k = 0; k < (is_yarn ? 3 : 1); ++k)
        frequencies_.push_back(ops::empty(r_, {dim / 2}, DType::kFloat32));
      for (int k = 0; k < (is_yarn && !is_fused ? 2 : 0); ++k)
        frequencies_.push_back(ops::empty(r_, {kOriginalPositions, 1, 1, dim}, dtype));
    }
  }
  int64_t chunk_layers() const {
    int64_t layers = 0;
    for (const Chunk& chunk : stage_.chunks) layers += chunk.layers;
    return layers / static_cast<int64_t>(stage_.chunks.size());
  }

  // ---- one iteration ----

  Result<void> iterate() {
    const With<Category> category(r_.category, Category::kTemporary);
    begin("zero");
    optimizer_.zero_gradients();
    total_tokens_ = scalar(DType::kInt32);
    if (stage_.ranks == 1)
      PLIMSOLL_CHECK(no_pipelining());
    else if (stage_.chunks.size() == 1)
      PLIMSOLL_CHECK(one_forward_one_backward());
    else
      PLIMSOLL_CHECK(interleaved());
    // forward_backward_func's locals, then a flag that is reduced over the ranks.
    input_gradient_.reset();
    output_gradient_.reset();
    sum_sequence_gradients();
    total_tokens_.reset();
    current_ = {};
    token_count_.reset();
    passing_scalar();
    return {};
  }

  // _allreduce_non_tensor_model_parallel_grads: of what every rank has for its part of the sequence, in one
  // tensor.
  void sum_sequence_gradients() {
    if (!job_.megatron->has_sequence_parallel) return;
    int64_t elements = 0;
    for (const ChunkState& chunk : chunks_)
      for (const StageParameter& p : chunk.parameters())
        if (!p.is_split) elements += p.elements();
    ops::empty(r_, {elements}, chunks_.front().gradient_dtype());
  }

  Result<InFlight> forward_step(int64_t micro_batch, Value input) {
    begin("fwd", micro_batch);
    InFlight batch = micro_->forward(0, std::move(input));
    return batch;
  }
  // What forward_step returns takes the place of what was returned before.
  void returned(InFlight& batch) override {
    if (batch.report) reports_.push_back(std::move(batch.report));
    if (batch.token_count) token_count_ = std::move(batch.token_count);
  }

  void release_token_count() override { token_count_.reset(); }

  Result<void> no_pipelining() {
    for (int64_t m = 1; m <= job_.batch.accumulation; ++m) {
      PLIMSOLL_TRY(batch, forward_step(m, {}));
      returned(batch);
      begin("bwd", m);
      PLIMSOLL_TRY(none, micro_->backward(batch, {}));
      batch.scaled.reset();
      begin("x", m);
      batch = {};
    }
    return {};
  }

  // ---- pipeline ----

  Value receive() override {
    const int64_t parts = job_.megatron->has_sequence_parallel ? job_.mesh.tensor : 1;
    const Layout layout =
        Layout::contiguous({job_.batch.sequence / parts, job_.batch.micro_batch, a_.hidden});
    const With<Category> category(r_.category, Category::kActivation);
    const With<ModuleId> module(r_.module, program_.module("received"));
    Value value = ops::empty(r_, layout, dtype_of(job_.megatron->precision));
    program_.tensors[value.id().value].requires_grad = true;
    return value;
  }
  Value receive_input() { return stage_.is_first() ? Value() : receive(); }
  Value receive_gradient() { return stage_.is_last() ? Value() : receive(); }

  // The model keeps its input (set_input_tensor), and with it, once its backward has run, the gradient.
  Result<InFlight> pipelined_forward_step(int64_t micro_batch) {
    begin("fwd", micro_batch);
    last_input_ = {.tensor = received_};
    InFlight batch = micro_->forward(0, received_);
    current_ = {};  // output_tensor is bound to the new result
    returned(batch);
    return batch;
  }

  Result<void> warmup_forward(int64_t micro_batch) {
    PLIMSOLL_TRY(batch, pipelined_forward_step(micro_batch));
    micro_->deallocate_output(batch);
    in_flight_.push_back(std::move(batch));
    received_.reset();
    return {};
  }

  Result<void> steady_forward(int64_t micro_batch) {
    PLIMSOLL_TRY(batch, pipelined_forward_step(micro_batch));
    output_gradient_ = receive_gradient();
    micro_->deallocate_output(batch);
    in_flight_.push_back(std::move(batch));
    received_.reset();
    return {};
  }

  Result<void> pipelined_backward(int64_t micro_batch) {
    begin("bwd", micro_batch);
    current_ = std::move(in_flight_.front());
    in_flight_.pop_front();
    PLIMSOLL_TRY(gradient, micro_->backward(current_, output_gradient_));
    if (current_.input && last_input_.tensor && current_.input.id() == last_input_.tensor.id())
      last_input_.gradient = gradient;
    begin("x", micro_batch);
    input_gradient_ = std::move(gradient);
    return {};
  }

  // forward_backward_pipelining_without_interleaving
  Result<void> one_forward_one_backward() {
    const int64_t all = job_.batch.accumulation;
    const int64_t warmup = std::min(stage_.ranks - stage_.rank - 1, all);
    int64_t forward = 0, backward = 0;
    while (forward < warmup) {
      received_ = receive_input();
      PLIMSOLL_CHECK(warmup_forward(++forward));
    }
    if (forward < all) received_ = receive_input();
    while (forward < all) {
      PLIMSOLL_CHECK(steady_forward(++forward));
      PLIMSOLL_CHECK(pipelined_backward(++backward));
      if (forward < all) received_ = receive_input();
    }
    while (backward < all) {
      output_gradient_ = receive_gradient();
      PLIMSOLL_CHECK(pipelined_backward(++backward));
    }
    return {};
  }

  Result<void> interleaved() {
    Interleaved schedule(*this, *micro_, job_, stage_);
    schedule.set_model_inputs(std::move(model_inputs_));
    PLIMSOLL_CHECK(schedule.run());
    model_inputs_ = schedule.take_model_inputs();
    return {};
  }

  // ---- the step and what follows it ----

  Result<void> step() {
    const With<bool> no_grad(r_.is_grad_enabled, false);
    const With<Category> category(r_.category, Category::kTemporary);
    begin("step");
    optimizer_.step();
    begin("poststep");
    average_loss();
    begin("log");
    log();
    begin("stat");
    begin("end");
    restart_log();
    end();
    return {};
  }

  // train_step's end: flags and norms are reduced, the micro-batches' losses averaged.
  void average_loss() {
    passing_scalar();
    passing_scalar();
    optimizer_.release_norms();
    passing_scalar();
    if (reports_.empty()) return;
    Value all = ops::cat(std::vector<Value>(reports_), 0);
    Value sum = ops::sum(ops::view(all, {-1, 2}), {0}, false);
    all.reset();
    loss_ = ops::div(ops::select(sum, 0, 0), ops::select(sum, 0, 1));
    reports_.clear();
    sum.reset();
  }

  // training_log: the sum of the losses since the last line. Memory is read at its end.
  void log() {
    Value before = total_loss_ ? total_loss_ : ops::from_host(r_, {}, DType::kFloat32);
    if (!loss_) return;
    Value sum = ops::add(before, loss_);
    before.reset();
    total_loss_ = std::move(sum);
  }
  void restart_log() {
    Value zero = ops::from_host(r_, {}, DType::kFloat32);
    total_loss_ = std::move(zero);
  }

  const Architecture& a_;
  const ResolvedJob& job_;
  Stage stage_;
  PassList own_passes_;
  PassList& passes_;
  Program program_;
  Recorder r_;
  std::vector<Forward> forwards_;
  std::vector<ChunkState> chunks_;
  OptimizerState optimizer_;
  std::optional<MicroBatches> micro_;
  int iteration_ = 1;
  std::string phase_;
  uint32_t first_statement_ = 0;

  Value auxiliary_scale_;  // MoEAuxLossAutoScaler.main_loss_backward_scale
  Value start_time_, total_tokens_, token_count_, loss_, total_loss_;
  std::vector<Value> frequencies_;
  std::vector<Value> reports_;  // forward_data_store
  std::deque<InFlight> in_flight_;
  InFlight current_;
  Value received_, input_gradient_, output_gradient_;
  ModelInput last_input_;
  std::vector<ModelInput> model_inputs_;  // by chunk, of the interleaved schedule
};

}  // namespace

Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job,
                               const TrainingOptions& options) {
  PLIMSOLL_TRY(stage, stage_of(architecture, job, options.pipeline_rank));
  return TrainingBuilder(architecture, job, std::move(stage), options.passes).build();
}

}  // namespace plimsoll::megatron
