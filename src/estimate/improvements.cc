#include "estimate/improvements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "estimate/candidates.h"
#include "strategy/job_file.h"

namespace plimsoll {
namespace {

// How many statements of changed programs a page may cost: about 60 ms on two cores.
constexpr size_t kStatementBudget = 300'000;

Result<QuickAnswer> answer_for(const EstimateRequest& request, const std::vector<std::string>& settings) {
  Job changed = request.job;
  for (const std::string& setting : settings) PLIMSOLL_CHECK(apply_setting(changed, setting));
  return quick_estimate(
      {.architecture = request.architecture, .job = changed, .gpu = request.gpu, .node = request.node});
}

void in_threads(unsigned threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> workers;
  for (unsigned t = 1; t < threads; ++t) workers.emplace_back(take);
  take();
}

// The candidates that the budget allows, by priority; in the order of the checklist again.
size_t keep_affordable(std::vector<Candidate>& candidates, size_t program_size) {
  const size_t affordable = std::max<size_t>(3, kStatementBudget / std::max<size_t>(1, program_size));
  if (candidates.size() <= affordable) return 0;
  std::vector<size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return candidates[i].priority; });
  order.resize(affordable);
  std::ranges::sort(order);
  std::vector<Candidate> kept;
  for (size_t i : order) kept.push_back(std::move(candidates[i]));
  const size_t left_out = candidates.size() - kept.size();
  candidates = std::move(kept);
  return left_out;
}

Change change_of(const Candidate& candidate, const QuickAnswer& answer, Bytes before) {
  return {.settings = candidate.settings,
          .price = candidate.price,
          .device_peak = answer.device_peak,
          .saved = before - answer.device_peak,
          .runs = answer.runs};
}

struct Tried {
  Candidate candidate;
  Change change;
};

// The cheapest single change that runs; else the changes put together, cheapest first, until it runs.
std::optional<Change> find_cure(const EstimateRequest& request, std::vector<Tried> tried, Bytes before) {
  std::ranges::stable_sort(tried, {}, [](const Tried& t) { return t.candidate.rank; });
  for (const Tried& t : tried)
    if (t.change.runs) return t.change;
  Candidate together{.price = "together"};
  for (const Tried& t : tried) {
    if (t.change.saved.value <= 0) continue;
    std::vector<std::string> settings = together.settings;
    settings.insert(settings.end(), t.candidate.settings.begin(), t.candidate.settings.end());
    const Result<QuickAnswer> answer = answer_for(request, settings);
    if (!answer) continue;  // contradicts a change before it
    together.settings = std::move(settings);
    if (answer->runs) return change_of(together, *answer, before);
  }
  return std::nullopt;
}

}  // namespace

std::string Change::to_text() const { return fmt::format("{}", fmt::join(settings, " ")); }

Improvements find_improvements(const EstimateRequest& request, const Estimate& estimate, size_t program_size,
                               const ImprovementOptions& options) {
  Improvements found;
  std::vector<Candidate> candidates = candidates_for(estimate);
  if (!options.tries_all) found.untried = keep_affordable(candidates, program_size);
  std::vector<std::optional<Result<QuickAnswer>>> answers(candidates.size());
  in_threads(options.threads, candidates.size(),
             [&](size_t i) { answers[i] = answer_for(request, candidates[i].settings); });
  const Bytes before = estimate.device_peak();
  std::vector<Tried> tried;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Result<QuickAnswer>& answer = *answers[i];
    const std::string text = fmt::format("{}", fmt::join(candidates[i].settings, " "));
    if (!answer) {
      found.unsupported.push_back(fmt::format("{} ({})", text, answer.error().message));
      continue;
    }
    Change change = change_of(candidates[i], *answer, before);
    if (change.saved.value > 0)
      found.changes.push_back(change);
    else
      found.without_effect.push_back(text);
    tried.push_back({.candidate = candidates[i], .change = std::move(change)});
  }
  if (estimate.verdict.gpu == Fit::kOutOfMemory) found.cure = find_cure(request, std::move(tried), before);
  return found;
}

}  // namespace plimsoll
