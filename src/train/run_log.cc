#include "train/run_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace plimsoll {
namespace {

constexpr double kSecondsBetweenLines = 10;  // where there is no terminal

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
  const double rate = tokens_per_step_ / step.seconds;
  if (metrics_) {
    const std::string line = fmt::format(
        "{{\"step\": {}, \"loss\": {}, \"gradient_norm\": {}, \"learning_rate\": {}, \"tokens_per_second\": "
        "{:.1f}, "
        "\"step_seconds\": {:.6f}, \"communication_seconds\": {:.6f}, \"io_seconds\": {:.6f}}}\n",
        step.step, step.loss, step.gradient_norm, step.learning_rate, rate, step.seconds,
        step.communication_seconds, step.io_seconds);
    const bool is_written = std::fputs(line.c_str(), metrics_.get()) >= 0 && std::fflush(metrics_.get()) == 0;
    if (!is_written)
      return fail({.position = {.file = metrics_name_, .key = "train.metrics"},
                   .message = fmt::format("cannot be written: {}", std::strerror(errno))});
  }
  if (is_silent_) return {};
  const std::string text =
      fmt::format("step {} of {}: loss {:.4f}, {:.0f} tokens/s", step.step, all_steps_, step.loss, rate);
  if (is_terminal_) {
    std::fputs(fmt::format("\r\033[K{}", text).c_str(), stderr);
  } else if (step.step == 1 || step.step == all_steps_ || seconds_ - shown_at_ >= kSecondsBetweenLines) {
    shown_at_ = seconds_;
    std::fputs((text + "\n").c_str(), stderr);
  }
  return {};
}

void RunLog::finish() {
  if (is_terminal_) std::fputs("\n", stderr);
}

}  // namespace plimsoll
