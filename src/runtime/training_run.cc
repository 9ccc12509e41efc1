#include "runtime/training_run.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "program/op_flops.h"
#include "runtime/learning_rate.h"
#include "simulator/exact_trace.h"

namespace plimsoll::runtime {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kStepsRecorded = 2;  // the first, and one that finds optimizer states

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Result<std::unique_ptr<TrainingRun>> TrainingRun::make(const TrainingRunOptions& options) {
  const int64_t rank = options.communicator ? options.communicator->rank() : 0;
  PLIMSOLL_TRY(training, native::build_training(options.architecture, options.job, {.rank = rank}));
  std::unique_ptr<TrainingRun> run(new TrainingRun(options, std::move(training)));
  PLIMSOLL_TRY(executor,
               Executor::make(run->training_.program, {.allocator = &run->allocator_,
                                                       .host = &run->host_,
                                                       .communicator = options.communicator,
                                                       .disk_folder = options.job.offload.directory}));
  run->executor_ = std::make_unique<Executor>(std::move(executor));
  for (const ExactPeak& peak : exact_peaks(run->training_.program))
    run->memory_.push_back({.phase = peak.phase, .predicted = peak});
  return run;
}

TrainingRun::TrainingRun(const TrainingRunOptions& options, native::Training training)
    : a_(options.architecture),
      job_(options.job),
      communicator_(options.communicator),
      training_(std::move(training)),
      allocator_(MeasuredAllocator::install()),
      host_(a_, training_.units, options.weights) {}

Result<void> TrainingRun::play(const std::string& phase, uint32_t section) {
  allocator_.begin_phase();
  if (steps_to_record_ > 0) {
    record_->begin_phase(phase);
    recorded_.push_back({.phase = phase, .section = section});
  }
  PLIMSOLL_CHECK(executor_->play(section));
  for (PhaseMemoryReport& m : memory_) {
    if (m.phase != phase) continue;
    const MeasuredBytes measured = allocator_.peak();
    if (m.times == 0) m.measured = measured;
    m.scratch_peak = std::max(m.scratch_peak, allocator_.scratch_peak());
    ++m.times;
    if (m.predicted.tiers != measured) ++m.times_different;
    break;
  }
  return {};
}

void TrainingRun::listen(AllocationRecord* record) {
  allocator_.set_listener(record);
  executor_->observer = record;
}

void TrainingRun::start_recording() {
  record_ = std::make_unique<AllocationRecord>(training_.program);
  steps_to_record_ = kStepsRecorded;
  listen(record_.get());
}

TrainingRun::Recording TrainingRun::take_recording() {
  listen(nullptr);
  steps_to_record_ = 0;
  return {.predicted = exact_trace(training_.program, recorded_), .measured = record_->take()};
}

std::vector<std::string> TrainingRun::notes() const {
  std::vector<std::string> notes = training_.program.notes;
  notes.insert(notes.end(), executor_->notes().begin(), executor_->notes().end());
  if (communicator_ == nullptr) return notes;
  for (std::string& note : communicator_->notes()) notes.push_back(std::move(note));
  return notes;
}

Bytes TrainingRun::predicted_memory() const {
  Bytes most;
  for (const PhaseMemoryReport& m : memory_) {
    Bytes sum;
    for (const Tier tier : {Tier::kGpu, Tier::kHost, Tier::kHostPinned}) sum += m.predicted.of(tier).total;
    most = std::max(most, sum);
  }
  return most;
}

Result<void> TrainingRun::load() { return play("load", training_.load); }

Flops TrainingRun::flops_per_step() const {
  Flops forward;
  for (const native::MicroStep& m : training_.micro_steps)
    forward += section_flops(training_.program, m.forward);
  return 3 * forward * (communicator_ == nullptr ? 1 : communicator_->size());
}

double TrainingRun::seconds_under_way() const {
  return communicator_ == nullptr ? 0 : communicator_->seconds_under_way();
}

Result<double> TrainingRun::mean_loss(double own) {
  if (communicator_ == nullptr || communicator_->size() == 1) return own;
  at::Tensor sum = at::full({1}, own, at::TensorOptions().dtype(at::kFloat));
  const Clock::time_point start = Clock::now();
  PLIMSOLL_CHECK(communicator_->all_reduce(sum)->wait());  // after the gradients', which are queued before
  executor_->communication_seconds += seconds_since(start);
  return sum.item<double>();
}

Result<double> TrainingRun::evaluate(const BatchSource& batches, int64_t steps) {
  const native::MicroStep& evaluation = *training_.evaluation;
  double sum = 0;
  for (int64_t s = 0; s < steps; ++s)
    for (int64_t m = 0; m < job_.batch.accumulation; ++m) {
      at::Tensor ids = executor_->tensor(training_.ids), labels = executor_->tensor(training_.labels);
      PLIMSOLL_CHECK(batches(s, m, ids, labels));
      PLIMSOLL_CHECK(play("eval", evaluation.forward));
      sum += executor_->tensor(evaluation.loss).item<double>();
      if (steps_to_record_ > 0) recorded_.push_back({.phase = "eval", .section = evaluation.backward});
      PLIMSOLL_CHECK(executor_->play(evaluation.backward));
    }
  PLIMSOLL_TRY(loss, mean_loss(sum / static_cast<double>(steps)));
  PLIMSOLL_CHECK(check_number("loss of the evaluation after step", steps_done_, loss));
  return loss;
}

// Of what is the same on every rank.
Result<void> TrainingRun::check_number(const std::string& what, int64_t step, double value) {
  if (std::isfinite(value)) return {};
  is_loss_wrong_ = true;
  const bool is_updated = steps_done_ > 0;
  return fail({.message = fmt::format("the {} {} is {}", what, step, std::isnan(value) ? "nan" : "inf"),
               .expected = "a number",
               .hint = is_updated
                           ? "a lower train.learning_rate, more train.warmup_steps, or loop.clip_max_norm"
                           : "nothing has been updated yet: look at train.weights, or at the precision"});
}

Result<void> TrainingRun::update(StepReport& report, const std::string& phase) {
  const RunSettings& run = job_.run;
  executor_->step = {.step = report.step,
                     .learning_rate = report.learning_rate,
                     .beta1 = run.beta1,
                     .beta2 = run.beta2,
                     .epsilon = run.epsilon,
                     .weight_decay = run.weight_decay,
                     .momentum = run.momentum,
                     .decay_rate = run.decay_rate,
                     .clip_threshold = run.clip_threshold};
  const Result<void> updated = play(phase, training_.step);
  if (const std::optional<double> norm = host_.wrong_norm())
    return check_number("gradient norm of step", report.step, *norm);
  PLIMSOLL_CHECK(updated);
  PLIMSOLL_CHECK(executor_->finish());  // parameters are gathered
  report.gradient_norm = std::sqrt(executor_->tensor(training_.squared_norm).item<double>());
  return {};
}

Result<StepReport> TrainingRun::step(const BatchSource& batches) {
  const Clock::time_point start = Clock::now();
  const double waited = executor_->communication_seconds, under_way = seconds_under_way(),
               recomputed = executor_->recompute_seconds, moved = executor_->io_seconds;
  StepReport report{.step = steps_done_ + 1, .learning_rate = learning_rate_at(job_.run, steps_done_ + 1)};
  const int iteration = steps_done_ == 0 ? 1 : 2;  // the program's names of the first and of a steady step
  const size_t count = training_.micro_steps.size();
  for (size_t m = 0; m < count; ++m) {
    at::Tensor ids = executor_->tensor(training_.ids), labels = executor_->tensor(training_.labels);
    PLIMSOLL_CHECK(batches(steps_done_, static_cast<int64_t>(m), ids, labels));
    const std::string suffix =
        count == 1 ? fmt::format("{}", iteration) : fmt::format("{}.{}", iteration, m + 1);
    PLIMSOLL_CHECK(play("fwd" + suffix, training_.micro_steps[m].forward));
    report.loss += executor_->tensor(training_.micro_steps[m].loss).item<double>();
    PLIMSOLL_CHECK(play("bwd" + suffix, training_.micro_steps[m].backward));
  }
  if (after_backward) {
    PLIMSOLL_CHECK(executor_->finish());
    PLIMSOLL_CHECK(after_backward());
  }
  PLIMSOLL_TRY(loss, mean_loss(report.loss));
  report.loss = loss;
  PLIMSOLL_CHECK(check_number("loss of step", report.step, loss));
  PLIMSOLL_CHECK(update(report, fmt::format("step{}", iteration)));
  ++steps_done_;
  if (steps_to_record_ > 0 && --steps_to_record_ == 0) listen(nullptr);
  report.seconds = seconds_since(start);
  report.communication_seconds = executor_->communication_seconds - waited;
  report.collective_seconds = seconds_under_way() - under_way;
  report.recompute_seconds = executor_->recompute_seconds - recomputed;
  report.io_seconds = executor_->io_seconds - moved;
  return report;
}

}  // namespace plimsoll::runtime
