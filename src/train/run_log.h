// What a run says while it runs: a line that changes on a terminal, a line now and then elsewhere, and a JSON
// line a step in the metrics file.
//
//   {"step": 1, "loss": 6.25, "gradient_norm": 2.1, "learning_rate": 0.0003, "tokens_per_second": 8100.5,
//    "step_seconds": 0.25, "communication_seconds": 0.01, "collective_seconds": 0.03, "io_seconds": 0,
//    "recompute_seconds": 0, "model_flops_utilization": 0.61, "evaluation_loss": 6.3}    the last where it
//    was evaluated. A number that isn't finite is null.
#pragma once

#include <cstdio>
#include <memory>
#include <vector>

#include "base/result.h"
#include "runtime/training_run.h"
#include "strategy/job.h"

namespace plimsoll {

// What a step costs, and what the ranks' machines offer: measured (runtime/machine_peak.h).
struct StepCost {
  double model_flops = 0;  // of a step of all ranks
  double peak_flops = 0;   // a second, of all ranks
  double utilization(double step_seconds) const { return model_flops / (step_seconds * peak_flops); }
};

class RunLog {
 public:
  // Errors: a metrics file that can't be written.
  static Result<RunLog> open(const ResolvedJob& job);
  static RunLog silent(const ResolvedJob& job);  // of a rank that leaves talking to rank 0

  void set_cost(const StepCost& cost) { cost_ = cost; }
  Result<void> add(const runtime::StepReport& step);
  void finish();  // ends the line on the terminal

  const std::vector<runtime::StepReport>& steps() const { return steps_; }
  double tokens_per_step() const { return tokens_per_step_; }
  const StepCost& cost() const { return cost_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  RunLog() = default;
  Result<void> write_metrics(const runtime::StepReport& step);
  void show(const runtime::StepReport& step);

  std::unique_ptr<std::FILE, Close> metrics_;
  std::string metrics_name_;
  std::vector<runtime::StepReport> steps_;
  double tokens_per_step_ = 0;
  StepCost cost_;
  int64_t all_steps_ = 0;
  bool is_silent_ = true, is_terminal_ = false;
  double seconds_ = 0, shown_at_ = 0;
};

}  // namespace plimsoll
