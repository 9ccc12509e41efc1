#include "train/run_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

namespace plimsoll {
namespace {

constexpr double kSecondsBetweenLines = 10;  // where there is no terminal

std::string left_text(double seconds) {
  constexpr double kMinute = 60, kMinutesShown = 2 * kMinute;
  return seconds < kMinutesShown ? fmt::format("{:.0f} s left", seconds)
                                 : fmt::format("{:.0f} min left", seconds / kMinute);
}

// JSON has no infinity and no NaN.
std::string number_text(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

}  // namespace

RunLog RunLog::silent(const ResolvedJob& job) {
  RunLog log;
  log.tokens_per_step_ =
      static_cast<double>(job.batch.global_batch) * static_cast<double>(job.batch.sequence);
  log.all_steps_ = job.run.steps;
  return log;
}

Result<RunLog> RunLog::open(const ResolvedJob& job) {
  RunLog log = silent(job);
  log.is_silent_ = false;
  log.is_terminal_ = isatty(STDERR_FILENO) == 1;
  log.metrics_name_ = job.run.metrics;
  if (log.metrics_name_.empty()) return log;
  log.metrics_.reset(std::fopen(log.metrics_name_.c_str(), "ae"));
  if (!log.metrics_)
    return fail({.position = {.file = log.metrics_name_, .key = "train.metrics"},
                 .message = fmt::format("cannot be written: {}", std::strerror(errno)),
                 .expected = "a file in a folder that exists"});
  return log;
}

Result<void> RunLog::add(const runtime::StepReport& step) {
  steps_.push_back(step);
  seconds_ += step.seconds;
  if (metrics_) PLIMSOLL_CHECK(write_metrics(step));
  if (!is_silent_) show(step);
  return {};
}

Result<void> RunLog::write_metrics(const runtime::StepReport& step) {
  const std::string line = fmt::format(
      "{{\"step\": {}, \"loss\": {}, \"gradient_norm\": {}, \"learning_rate\": {}, \"tokens_per_second\": "
      "{:.1f}, \"step_seconds\": {:.6f}, \"communication_seconds\": {:.6f}, \"collective_seconds\": {:.6f}, "
      "\"io_seconds\": {:.6f}, \"recompute_seconds\": {:.6f}, \"model_flops_utilization\": {:.4f}{}}}\n",
      step.step, number_text(step.loss), number_text(step.gradient_norm), step.learning_rate,
      tokens_per_step_ / step.seconds, step.seconds, step.communication_seconds, step.collective_seconds,
      step.io_seconds, step.recompute_seconds, cost_.utilization(step.seconds),
      step.evaluation_loss ? ", \"evaluation_loss\": " + number_text(*step.evaluation_loss) : "");
  const bool is_written = std::fputs(line.c_str(), metrics_.get()) >= 0 && std::fflush(metrics_.get()) == 0;
  if (is_written) return {};
  return fail({.position = {.file = metrics_name_, .key = "train.metrics"},
               .message = fmt::format("cannot be written: {}", std::strerror(errno))});
}

void RunLog::show(const runtime::StepReport& step) {
  const bool is_now = is_terminal_ || step.evaluation_loss || step.step == 1 || step.step == all_steps_ ||
                      seconds_ - shown_at_ >= kSecondsBetweenLines;
  if (!is_now) return;
  shown_at_ = seconds_;
  const double left =
      static_cast<double>(all_steps_ - step.step) * seconds_ / static_cast<double>(steps_.size());
  const std::string text =
      fmt::format("step {} of {}: loss {:.4f}, {:.0f} tokens/s, MFU {:.0f}%, {}", step.step, all_steps_,
                  step.loss, tokens_per_step_ / step.seconds, 100 * cost_.utilization(step.seconds),
                  left_text(left)) +
      (step.evaluation_loss ? fmt::format("; held out: loss {:.4f}", *step.evaluation_loss) : "");
  std::fputs((is_terminal_ ? "\r\033[K" + text : text + "\n").c_str(), stderr);
}

void RunLog::finish() {
  if (is_terminal_) std::fputs("\n", stderr);
}

}  // namespace plimsoll
