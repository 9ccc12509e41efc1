#include "estimate/improvements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "base/in_threads.h"
#include "estimate/candidates.h"
#include "estimate/cure.h"
#include "estimate/needed_parts.h"
#include "strategy/job_file.h"

namespace plimsoll {
namespace {

// How many statements of changed programs an answer may cost. Of a job that runs the table: all rows of a
// model of 32 layers. Of one that runs out of memory, which is worth waiting up to a second for, the table
// and the search for a cure; of a large program (a model of some 100 layers) no more than a moment allows.
constexpr size_t kStatementsOfTable = 140'000;
constexpr size_t kStatementsOfTableUnfit = 1'000'000;
constexpr size_t kStatementsOfCure = 3'500'000;
constexpr size_t kLargeProgram = 60'000;
constexpr size_t kStatementsOfLargeCure = 200'000;
constexpr size_t kFewest = 2;

std::string text_of(const std::vector<std::string>& settings) {
  return fmt::format("{}", fmt::join(settings, " "));
}

// Why a candidate isn't possible. A message about a choice begins with it and says why after a colon; one
// about a field that the candidate leaves as it is gets that field's name.
std::string reason_of(const Candidate& candidate, const Error& error) {
  const std::string& key = error.position.key;
  const size_t colon = error.message.find(": ");
  const bool names_choice = error.message.starts_with(key) && colon != std::string::npos;
  const std::string why = names_choice ? error.message.substr(colon + 2) : error.message;
  const auto is_own = [&](const std::string& setting) { return setting.starts_with(key + "="); };
  return key.empty() || std::ranges::any_of(candidate.settings, is_own) ? why
                                                                        : fmt::format("{}: {}", key, why);
}

// Estimates of changed jobs, and how many statements they have cost.
class ChangedJobs {
 public:
  ChangedJobs(const EstimateRequest& request, const EstimateRun& run, unsigned threads)
      : request_(request), run_(run), threads_(threads) {}

  // What only the change makes meaningless goes with it: fsdp2.pin_memory with fsdp2.cpu_offload.
  void add_resets(Candidate& candidate) const {
    const Result<Job> job = changed_job(candidate);
    if (!job) return;
    for (std::string& reset : resets_of_unused(request_for(*job))) {
      const auto is_own = [&](const std::string& setting) { return field_of(setting) == field_of(reset); };
      if (std::ranges::none_of(candidate.settings, is_own)) candidate.settings.push_back(std::move(reset));
    }
  }

  Result<void> check(const Candidate& candidate) const {
    PLIMSOLL_TRY(job, changed_job(candidate));
    return check_estimable(request_for(job));
  }

  std::vector<Result<QuickAnswer>> answers_for(const std::vector<Candidate>& candidates) {
    for (const Candidate& c : candidates) statements_ += cost_of(c);
    std::vector<std::optional<Result<QuickAnswer>>> answers(candidates.size());
    in_threads(threads_, candidates.size(), [&](size_t i) { answers[i] = answer_for(candidates[i]); });
    std::vector<Result<QuickAnswer>> all;
    for (auto& answer : answers) all.push_back(std::move(*answer));
    return all;
  }

  size_t cost_of(const Candidate& c) const { return c.has_same_program ? 0 : run_.program.statements.size(); }
  size_t statements() const { return statements_; }

  Change change_of(const Candidate& candidate, const QuickAnswer& answer) const {
    return {.settings = candidate.settings,
            .price = candidate.price,
            .device_peak = answer.device_peak,
            .wanted = answer.wanted,
            .saved = run_.estimate.wanted() - answer.wanted,
            .host_peak = answer.host_peak,
            .host_saved = run_.estimate.host_peak - answer.host_peak,
            .gpu = answer.gpu,
            .host = answer.host,
            .is_combination = candidate.is_combination};
  }

 private:
  Result<Job> changed_job(const Candidate& candidate) const {
    Job changed = request_.job;
    for (const std::string& setting : candidate.settings) PLIMSOLL_CHECK(apply_setting(changed, setting));
    return changed;
  }

  EstimateRequest request_for(const Job& job) const {
    return {.architecture = request_.architecture, .job = job, .gpu = request_.gpu, .node = request_.node};
  }

  Result<QuickAnswer> answer_for(const Candidate& candidate) const {
    PLIMSOLL_TRY(job, changed_job(candidate));
    const EstimateRequest changed = request_for(job);
    return candidate.has_same_program ? quick_estimate(changed, run_.program) : quick_estimate(changed);
  }

  const EstimateRequest& request_;
  const EstimateRun& run_;
  unsigned threads_;
  size_t statements_ = 0;
};

class Finder {
 public:
  Finder(const EstimateRequest& request, const EstimateRun& run, const ImprovementOptions& options)
      : run_(run), tries_all_(options.tries_all), jobs_(request, run, options.threads) {
    const Estimate& e = run.estimate;
    fits_ = std::max(e.verdict.gpu, e.verdict.host) == Fit::kFits;
    candidates_ = candidates_for(e, facts_of(run.program, request.architecture, e.job));
    for (Candidate& candidate : candidates_) jobs_.add_resets(candidate);
  }

  Improvements find() {
    drop_unsupported();
    changes_.resize(candidates_.size());
    PartIndices parts = combinable(candidates_);
    const PartIndices rows = affordable_rows(!parts.empty());
    // Several at once are shown beside each of them alone, or not at all.
    const auto is_asked = [&](size_t part) { return std::ranges::find(rows, part) != rows.end(); };
    if (!std::ranges::all_of(parts, is_asked)) parts.clear();
    std::vector<Candidate> asked;
    for (const size_t row : rows) asked.push_back(candidates_[row]);
    if (!parts.empty()) asked.push_back(together(parts));
    const std::vector<Result<QuickAnswer>> answers = jobs_.answers_for(asked);
    for (size_t i = 0; i < rows.size(); ++i) take(rows[i], answers[i]);
    if (!parts.empty() && answers.back()) take_several(parts, *answers.back());
    if (!fits_) found_.cure = cure();
    return std::move(found_);
  }

 private:
  void drop_unsupported() {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      if (candidate.role == Role::kAddition) return false;
      const Result<void> checked = jobs_.check(candidate);
      if (!checked && candidate.role == Role::kRow) refuse(candidate, checked.error());
      return !checked;
    });
  }

  // Those that work on the most bytes, in the order of the checklist. Of a job that doesn't fit the changes
  // that keep the training and the GPUs go first, those that save most of them first; where the host is what
  // is too small, before them those that take from it.
  PartIndices affordable_rows(bool has_several) {
    PartIndices rows;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].role == Role::kRow) rows.push_back(i);
    if (tries_all_) return rows;
    PartIndices order = rows;
    const bool is_host_worse = run_.estimate.verdict.host > run_.estimate.verdict.gpu;
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) {
      const Price rank = candidates_[i].rank;
      const bool is_cheap = !fits_ && rank <= Price::kMoreCompute;
      const bool is_apt = is_host_worse && candidates_[i].takes_from_host;
      return std::tuple(is_apt, is_cheap, is_cheap ? rank : Price::kNothing, candidates_[i].aim);
    });
    const size_t budget = statements_of_table();
    const size_t one = std::max<size_t>(1, run_.program.statements.size());
    size_t left = std::max(kFewest, budget / one) - (has_several ? 1 : 0);
    for (const size_t i : order) {
      if (candidates_[i].has_same_program) continue;
      if (left > 0)
        --left;
      else
        std::erase(rows, i);
    }
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_[i].role == Role::kRow && std::ranges::find(rows, i) == rows.end())
        found_.untried.push_back(text_of(candidates_[i].settings));
    return rows;
  }

  void refuse(const Candidate& candidate, const Error& error) {
    found_.unsupported.push_back(
        fmt::format("{} ({})", text_of(candidate.settings), reason_of(candidate, error)));
  }

  // On the host a saving counts only where memory is short there.
  bool has_effect(const Change& change) const {
    const bool is_host_short = run_.estimate.verdict.host != Fit::kFits;
    return change.saved >= kLeastSaving || (is_host_short && change.host_saved >= kLeastSaving);
  }

  void take(size_t row, const Result<QuickAnswer>& answer) {
    if (!answer) return refuse(candidates_[row], answer.error());
    Change change = jobs_.change_of(candidates_[row], *answer);
    if (has_effect(change))
      found_.changes.push_back(change);
    else
      found_.without_effect.push_back(text_of(change.settings));
    changes_[row] = std::move(change);
  }

  // ---- several at once ----

  Candidate together(const PartIndices& parts) const {
    std::vector<const Candidate*> all;
    for (const size_t part : parts) all.push_back(&candidates_[part]);
    return merged(all);
  }

  bool is_large() const { return run_.program.statements.size() > kLargeProgram; }

  bool runs_out() const {
    return std::max(run_.estimate.verdict.gpu, run_.estimate.verdict.host) == Fit::kOutOfMemory;
  }
  size_t statements_of_table() const {
    return runs_out() && !is_large() ? kStatementsOfTableUnfit : kStatementsOfTable;
  }

  // Parts that may not help: all of them where there is time, or where one of them does more alone.
  PartIndices suspects_among(const PartIndices& parts, Bytes wanted) const {
    if ((runs_out() && !is_large()) || tries_all_ || is_any_better(parts, wanted)) return parts;
    PartIndices suspects;
    for (const size_t part : parts)
      if (changes_[part] && changes_[part]->saved < kLeastSaving) suspects.push_back(part);
    return suspects;
  }

  bool is_any_better(const PartIndices& parts, Bytes wanted) const {
    return std::ranges::any_of(parts, [&](size_t part) {
      return changes_[part] && changes_[part]->wanted + kLeastSaving <= wanted;
    });
  }

  // Where there is no time to leave parts out, what one of them does better alone is not shown.
  void take_several(const PartIndices& parts, const QuickAnswer& answer) {
    std::map<PartIndices, Change> known{{parts, jobs_.change_of(together(parts), answer)}};
    Bytes best = answer.wanted;
    const Fit best_fit = std::max(answer.gpu, answer.host);
    const auto are_no_worse = [&](const std::vector<PartIndices>& lists) {
      std::vector<Candidate> asked;
      size_t cost = jobs_.statements();
      for (const PartIndices& list : lists) {
        asked.push_back(together(list));
        cost += jobs_.cost_of(asked.back());
      }
      if (cost > statements_of_table() && !tries_all_) return std::vector<bool>(lists.size(), false);
      const std::vector<Result<QuickAnswer>> answers = jobs_.answers_for(asked);
      std::vector<bool> does;
      for (const auto& a : answers)
        does.push_back(a && a->wanted < best + kLeastSaving && std::max(a->gpu, a->host) <= best_fit);
      for (size_t i = 0; i < lists.size(); ++i) {
        if (!does[i]) continue;
        best = std::min(best, answers[i]->wanted);
        known.insert_or_assign(lists[i], jobs_.change_of(asked[i], *answers[i]));
      }
      return does;
    };
    const PartIndices needed = needed_parts(parts, suspects_among(parts, answer.wanted), are_no_worse);
    const Change& several = known.at(needed);
    if (needed.size() > 1 && has_effect(several) && !is_any_better(needed, several.wanted))
      found_.changes.push_back(several);
  }

  // ---- the cure ----

  std::vector<std::optional<Change>> changes_of(const std::vector<Candidate>& asked) {
    std::vector<std::optional<Change>> changes(asked.size());
    size_t cost = jobs_.statements();
    for (const Candidate& c : asked) cost += jobs_.cost_of(c);
    const size_t budget = is_large() ? kStatementsOfLargeCure : kStatementsOfCure;
    if (cost > budget && !tries_all_) {
      found_.is_search_cut = true;
      return changes;
    }
    const std::vector<Result<QuickAnswer>> answers = jobs_.answers_for(asked);
    for (size_t i = 0; i < asked.size(); ++i)
      if (answers[i]) changes[i] = jobs_.change_of(asked[i], *answers[i]);
    return changes;
  }

  std::optional<Change> cure() {
    std::vector<Tried> tried;
    for (size_t i = 0; i < candidates_.size(); ++i)
      tried.push_back({.candidate = candidates_[i], .change = changes_[i]});
    return find_cure({.now = run_.estimate.verdict,
                      .device_limit = run_.estimate.device_limit(),
                      .tried = std::move(tried),
                      .is_possible = [&](const Candidate& c) { return jobs_.check(c).has_value(); },
                      .estimate = [&](const auto& asked) { return changes_of(asked); }});
  }

  const EstimateRun& run_;
  bool tries_all_, fits_ = true;
  ChangedJobs jobs_;
  std::vector<Candidate> candidates_;
  std::vector<std::optional<Change>> changes_;  // of the candidates that were estimated
  Improvements found_;
};

}  // namespace

std::string Change::to_text() const { return text_of(settings); }

Improvements find_improvements(const EstimateRequest& request, const EstimateRun& run,
                               const ImprovementOptions& options) {
  if (run.estimate.job.framework == Framework::kMegatron) return {};  // no change is known of argument lists
  return Finder(request, run, options).find();
}

}  // namespace plimsoll
