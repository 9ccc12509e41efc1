#include "frameworks/pytorch/training.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>

#include "frameworks/pytorch/eager.h"
#include "frameworks/pytorch/engine.h"
#include "frameworks/pytorch/forward.h"
#include "frameworks/pytorch/optimizer_step.h"
#include "frameworks/pytorch/tensor_parallel.h"
#include "frameworks/pytorch/trained.h"
#include "program/autograd.h"
#include "program/ops.h"
#include "strategy/names.h"

namespace plimsoll::pytorch {
namespace {

// Micro-batches between the first ones and the last are alike: of many, these first ones and the last are
// played.
constexpr int64_t kMostPlayed = 16;
constexpr int64_t kFirstPlayed = 4;
// A bound on time and memory: about 1 KB and 5 us a statement with all that a page tries.
constexpr size_t kMostStatements = 5'000'000;

class TrainingBuilder {
 public:
  TrainingBuilder(const Architecture& architecture, const ResolvedJob& job, const TrainingOptions& options)
      : full_(architecture),
        a_(local_architecture(architecture, job.mesh.tensor)),
        job_(job),
        options_(options),
        recipe_(options.recipe ? *options.recipe : transformers_recipe()),
        r_(program_, Recorder::Mode::kComplete) {}

  // The passes, in order. Those over the forward program decide, those over the complete one write.
  Result<Program> build() {
    PLIMSOLL_CHECK(recipe_.check(a_, job_));
    program_.is_complete = true;
    PLIMSOLL_TRY(trainable, trainable_flags(job_, a_));
    trainable_ = std::move(trainable);
    engine_ = make_engine();
    PLIMSOLL_TRY(
        optimizer_step,
        OptimizerStep::make(
            {.recorder = r_, .architecture = a_, .job = job_, .lists_states = options_.lists_states}));
    optimizer_step_.emplace(std::move(optimizer_step));

    PLIMSOLL_CHECK(run("forward", forward_.program, [&] { return record(forward_, true); }));
    PLIMSOLL_CHECK(
        run("recompute", forward_.program, [&] { return recipe_.mark_recompute(forward_.program, job_); }));
    program_.notes = forward_.program.notes;
    PLIMSOLL_CHECK(run("units", forward_.program, [&] { return mark_units(forward_); }));
    constexpr size_t kCompleteToForward = 5;  // a guess of how much larger the complete program gets
    choose_micro_batches();
    PLIMSOLL_CHECK(check_size(forward_.program.statements.size() * kCompleteToForward));
    program_.reserve(forward_.program, kCompleteToForward);
    PLIMSOLL_CHECK(run("load", program_, [&] { return load(); }));
    PLIMSOLL_CHECK(repeats() ? repeated_steps() : every_step());
    if (job_.loop.has_evaluation) PLIMSOLL_CHECK(run("evaluation", program_, [&] { return evaluate(); }));
    r_.finish();
    PLIMSOLL_CHECK(passes().check(program_));
    return std::move(program_);
  }

 private:
  PassList& passes() { return options_.passes ? *options_.passes : own_passes_; }
  template <typename Pass>
  Result<void> run(std::string_view name, Program& program, Pass&& pass) {
    return passes().run(name, program, std::forward<Pass>(pass));
  }

  Result<void> record(ForwardProgram& forward, bool is_training) {
    PLIMSOLL_TRY(recorded, recipe_.record_forward(
                               a_, job_, trainable_,
                               {.parameter_dtype = engine_->compute_dtype(), .is_training = is_training}));
    forward = std::move(recorded);
    return {};
  }
  Result<void> mark_units(ForwardProgram& forward) {
    engine_->mark_units(forward.program);
    return {};
  }

  std::unique_ptr<ParallelEngine> make_engine() {
    if (job_.engine == DataParallelEngine::kFsdp2)
      return make_fsdp2(r_, a_, job_, trainable_, recipe_.sharding_plan(a_, job_));
    if (job_.engine == DataParallelEngine::kDdp) return make_ddp(r_, job_);
    return make_single_device(r_, parameter_dtype(job_.precision));
  }

  template <typename F>
  void section(std::string name, std::string phase, F&& write) {
    Section s{.name = std::move(name), .first_statement = static_cast<uint32_t>(program_.statements.size())};
    write();
    s.last_statement = static_cast<uint32_t>(program_.statements.size());
    program_.sections.push_back(std::move(s));
    play_again(static_cast<uint32_t>(program_.sections.size() - 1), std::move(phase));
  }
  void play_again(uint32_t index, std::string phase) {
    program_.schedule.push_back({std::move(phase), index});
  }

  Value make(const Layout& layout, DType dtype, Category category, std::string_view owner) {
    const With<Category> c(r_.category, category);
    const With<ModuleId> m(r_.module, program_.module(owner));
    return ops::empty(r_, layout, dtype);
  }

  // Parameters in the order in which the modules make them, then what is tied is let go, then the inputs.
  Result<void> load() {
    section("load", "load", [&] {
      const With<bool> no_grad(r_.is_grad_enabled, false);
      if (is_built_on_meta()) {
        load_shards();
      } else {
        load_model();
      }
      const Layout tokens = Layout::contiguous({job_.batch.micro_batch, job_.batch.sequence});
      inputs_.push_back(make(tokens, DType::kInt64, Category::kInput, "input_ids"));
      inputs_.push_back(make(tokens, DType::kInt64, Category::kInput, "labels"));
      if (forward_.mask) inputs_.push_back(make(tokens, DType::kInt64, Category::kInput, "attention_mask"));
    });
    return {};
  }

  bool is_built_on_meta() const {
    return job_.engine == DataParallelEngine::kFsdp2 && job_.fsdp2.load == ModelLoad::kMeta;
  }

  // Built on the meta device: to_empty gives memory to the shards and buffers only.
  void load_shards() {
    std::vector<Layout> layouts;
    for (const ParameterTensor& p : a_.parameters) layouts.push_back(Layout::contiguous(p.shape));
    engine_->take_over_meta(layouts);
    make_buffers();
    for (size_t i = 0; i < layouts.size(); ++i)
      program_.parameters.push_back(engine_->compute_parameter(i).id());
  }

  void make_buffers() {
    const DType dtype = parameter_dtype(job_.precision);
    for (const BufferTensor& b : a_.buffers)
      buffers_.push_back(
          make(Layout::contiguous(b.shape), buffer_dtype(b, dtype), Category::kBuffer, b.name));
  }

  void load_model() {
    const DType dtype = parameter_dtype(job_.precision);
    std::vector<Value> parameters, tied;
    for (const ParameterTensor& p : full_.parameters)
      parameters.push_back(make(Layout::contiguous(p.shape), p.is_float32 ? DType::kFloat32 : dtype,
                                Category::kParameter, p.name));
    make_buffers();
    for (size_t i = 0; i < parameters.size(); ++i)
      for (const std::string& name : a_.parameters[i].tied_names)
        tied.push_back(
            make(Layout::contiguous(full_.parameters[i].shape), dtype, Category::kParameter, name));
    tied.clear();
    if (job_.mesh.tensor > 1) distribute(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      program_.tensors[parameters[i].id().value].requires_grad = trainable_[i];
      program_.parameters.push_back(parameters[i].id());
    }
    engine_->take_over(std::move(parameters), buffers_);
  }

  // parallelize_module: each split parameter gives way to the rank's part. Rows of a row-wise weight are not
  // contiguous, so every rank's part is copied first.
  void distribute(std::vector<Value>& parameters) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const ParameterTensor& local = a_.parameters[i];
      if (local.shape == full_.parameters[i].shape) continue;
      const With<ModuleId> module(r_.module, program_.module(local.name));
      const bool is_by_rows = local.shape[0] == full_.parameters[i].shape[0];
      std::vector<Value> parts;
      for (int64_t rank = 0; is_by_rows && rank < job_.mesh.tensor; ++rank)
        parts.push_back(
            ops::clone_contiguous(ops::slice(parameters[i], 1, rank * local.shape[1], local.shape[1])));
      const Value part =
          make(Layout::contiguous(local.shape), parameters[i].dtype(), Category::kParameter, local.name);
      parts.clear();
      parameters[i] = part;
    }
  }

  void bind(Autograd& autograd, const ForwardProgram& forward) {
    for (size_t i = 0; i < a_.parameters.size(); ++i)
      autograd.bind(forward.program.parameters[i], engine_->compute_parameter(i));
    for (size_t i = 0; i < buffers_.size(); ++i) autograd.bind(forward.buffers[i], buffers_[i]);
    autograd.bind(forward.ids, inputs_[0]);
    autograd.bind(forward.labels, inputs_[1]);
    if (forward.mask) autograd.bind(*forward.mask, inputs_[2]);
    for (TensorId t : forward.made_once) autograd.bind(t, made_once(forward.program, t));
  }

  // The first forward makes it; it counts among what that leaves behind.
  Value made_once(const Program& forward, TensorId t) {
    const std::string& name = forward.module_name(forward.storage_of(t).owner);
    Value& value = made_once_[name];
    const TensorInfo& info = forward.tensor(t);
    if (!value) value = make(info.layout, info.dtype, Category::kActivation, name);
    return value;
  }

  // `statements`: of one micro-batch.
  Result<void> check_size(size_t statements) const {
    constexpr size_t kMostDifferent = 3;  // that repeated_steps() writes
    const size_t written = repeats() ? std::min(played_.size(), kMostDifferent) : 2 * played_.size();
    if (statements * written <= kMostStatements) return {};
    return fail({.message = fmt::format("the step is a program of about {} million statements",
                                        statements * written / 1'000'000),
                 .expected = fmt::format("at most {} million", kMostStatements / 1'000'000),
                 .hint = "fewer layers, loss.chunks or micro-batches in batch.accumulation"});
  }

  void choose_micro_batches() {
    const int64_t all = job_.batch.accumulation;
    const int64_t first = all > kMostPlayed ? kFirstPlayed : all;
    for (int64_t m = 1; m <= first; ++m) played_.push_back(m);
    if (first == all) return;
    played_.push_back(all);
    program_.notes.push_back(fmt::format(
        "of {} micro-batches the first {} and the last are played: those between are alike", all, first));
  }

  Result<void> every_step() {
    for (int iteration = 1; iteration <= 2; ++iteration) {
      for (const int64_t microbatch : played_) PLIMSOLL_CHECK(micro_step(iteration, microbatch));
      PLIMSOLL_CHECK(optimizer_step(iteration));
      zero(iteration);
    }
    return {};
  }

  // Whether iteration 2 starts as iteration 1 did, but for the optimizer's states: no gradients, no scale
  // or tensors that are made on first use, no buckets that follow what iteration 1 saw, no outputs of the
  // step before.
  bool repeats() const {
    return !options_.writes_every_step && job_.loop.zero_grad == ZeroGrad::kSetToNone &&
           forward_.made_once.empty() && job_.engine != DataParallelEngine::kDdp &&
           !has_grad_scaler(job_.precision) && !job_.loop.hold_outputs;
  }

  // Two optimizer steps, where what the second does like the first is the first's sections played again.
  Result<void> repeated_steps() {
    std::vector<uint32_t> forwards;  // each micro-batch's forward section; its backward's is the next one
    for (const int64_t m : played_) {
      // From the second on gradients are added to: all are alike but for whether they communicate.
      if (m > 2 && communicates(m) == communicates(m - 1)) {
        forwards.push_back(forwards.back());
        play_micro_step_again(forwards.back(), 1, m);
        continue;
      }
      forwards.push_back(static_cast<uint32_t>(program_.sections.size()));
      PLIMSOLL_CHECK(micro_step(1, m));
    }
    PLIMSOLL_CHECK(optimizer_step(1));
    // Written while the gradients are still held, which are the same tensors in iteration 2; played there.
    PLIMSOLL_CHECK(optimizer_step(2));
    const PhaseStep second = program_.schedule.back();
    program_.schedule.pop_back();
    zero(1);
    const uint32_t zero_section = program_.schedule.back().section;
    for (size_t i = 0; i < played_.size(); ++i) play_micro_step_again(forwards[i], 2, played_[i]);
    program_.schedule.push_back(second);
    play_again(zero_section, "zero2");
    return {};
  }

  void play_micro_step_again(uint32_t forward_section, int iteration, int64_t microbatch) {
    const std::string suffix = suffix_of(iteration, microbatch);
    play_again(forward_section, "fwd" + suffix);
    play_again(forward_section + 1, "bwd" + suffix);
  }

  std::string suffix_of(int iteration, int64_t microbatch) const {
    return job_.batch.accumulation == 1 ? fmt::format("{}", iteration)
                                        : fmt::format("{}.{}", iteration, microbatch);
  }
  bool communicates(int64_t microbatch) const {
    return microbatch == job_.batch.accumulation || !job_.loop.no_sync;
  }

  Result<void> micro_step(int iteration, int64_t microbatch) {
    return run("differentiate", program_,
               [&] { return write_micro_step(suffix_of(iteration, microbatch), communicates(microbatch)); });
  }

  Result<void> optimizer_step(int iteration) {
    if (iteration == 1)
      PLIMSOLL_CHECK(check_gradients(a_, trainable_, engine_->trained_tensors(), job_, program_));
    return run("optimizer", program_, [&]() -> Result<void> {
      section("step", fmt::format("step{}", iteration),
              [&] { optimizer_step_->write(engine_->trained_tensors()); });
      return {};
    });
  }

  void zero(int iteration) {
    section("zero", fmt::format("zero{}", iteration), [&] {
      const With<Holder> holder(r_.holder, Holder::kGradient);
      engine_->zero_gradients(job_.loop.zero_grad);
    });
  }

  Result<void> write_micro_step(const std::string& suffix, bool communicates) {
    auto graph = std::make_unique<Autograd>(r_, forward_.program, *engine_, engine_.get(),
                                            AutogradOptions{.sums_in_place = options_.sums_in_place});
    Autograd& autograd = *graph;
    Value loss;
    section("forward", "fwd" + suffix, [&] {
      engine_->begin_micro_step(true, communicates);
      bind(autograd, forward_);
      if (GradScaler* const scaler = optimizer_step_->scaler()) {
        autograd.forward_until(forward_.scaling_begins);
        if (!scaler->is_made()) scaler->make();
        autograd.bind(*forward_.scale, scaler->scale());
      }
      loss = autograd.forward(forward_.loss);
      hold_outputs(autograd);
      held_graph_.reset();
      autograd.release_locals();
    });
    Result<void> done;
    section("backward", "bwd" + suffix, [&] {
      done = autograd.backward(std::move(loss));
      if (!held_outputs_.empty()) held_graph_ = std::move(graph);
      graph.reset();
    });
    return done;
  }

  // `outputs` stays in scope, and with it what its graph holds, until the next forward's replaces it.
  void hold_outputs(Autograd& autograd) {
    std::vector<Value> outputs;
    for (TensorId t : forward_.held_outputs) outputs.push_back(autograd.local(t));
    held_outputs_ = std::move(outputs);
  }

  Result<void> evaluate() {
    ForwardProgram forward;
    PLIMSOLL_CHECK(record(forward, false));
    PLIMSOLL_CHECK(mark_units(forward));
    section("release", program_.schedule.back().phase, [&] {
      held_outputs_.clear();
      held_graph_.reset();
    });
    section("evaluation", "eval", [&] {
      Autograd autograd(r_, forward.program, *engine_, engine_.get(), {});
      engine_->begin_micro_step(false, false);
      bind(autograd, forward);
      autograd.forward_without_gradients();
      autograd.release_locals();
    });
    return {};
  }

  const Architecture& full_;
  const Architecture a_;  // what one rank of the tensor-parallel group holds
  const ResolvedJob& job_;
  const TrainingOptions options_;
  const TrainingRecipe& recipe_;
  PassList own_passes_;
  Program program_;
  Recorder r_;
  ForwardProgram forward_;
  std::unique_ptr<ParallelEngine> engine_;
  std::optional<OptimizerStep> optimizer_step_;
  std::vector<bool> trainable_;
  std::vector<int64_t> played_;  // numbers of the micro-batches
  std::vector<Value> buffers_, inputs_, held_outputs_;
  std::unique_ptr<Autograd> held_graph_;
  std::map<std::string, Value> made_once_;
};

}  // namespace

Result<Program> build_training(const Architecture& architecture, const ResolvedJob& job,
                               const TrainingOptions& options) {
  TrainingBuilder builder(architecture, job, options);
  return builder.build();
}

}  // namespace plimsoll::pytorch
