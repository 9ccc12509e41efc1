#include "estimate/improvements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/in_threads.h"
#include "estimate/candidates.h"
#include "estimate/cure.h"
#include "strategy/job_file.h"

namespace plimsoll {
namespace {

// How many statements of changed programs the table may cost: all rows of a model of 32 layers.
constexpr size_t kStatementBudget = 140'000;
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

class Finder {
 public:
  Finder(const EstimateRequest& request, const EstimateRun& run, const ImprovementOptions& options)
      : request_(request), run_(run), options_(options) {}

  Improvements find() {
    candidates_ = candidates_for(run_.estimate, facts_of(run_.program));
    drop_unsupported();
    set_last_resorts_aside();
    if (auto combination = combination_of(candidates_)) candidates_.push_back(std::move(*combination));
    if (!options_.tries_all) drop_costly();
    std::vector<std::optional<Result<QuickAnswer>>> answers(candidates_.size());
    in_threads(options_.threads, candidates_.size(),
               [&](size_t i) { answers[i] = answer_for(candidates_[i]); });
    for (size_t i = 0; i < candidates_.size(); ++i) take(candidates_[i], *answers[i]);
    if (run_.estimate.verdict.gpu != Fit::kFits) found_.cure = cure();
    return std::move(found_);
  }

 private:
  Result<Job> changed_job(const std::vector<std::string>& settings) const {
    Job changed = request_.job;
    for (const std::string& setting : settings) PLIMSOLL_CHECK(apply_setting(changed, setting));
    return changed;
  }

  Result<QuickAnswer> answer_for(const Candidate& candidate) const {
    PLIMSOLL_TRY(job, changed_job(candidate.settings));
    const EstimateRequest changed{
        .architecture = request_.architecture, .job = job, .gpu = request_.gpu, .node = request_.node};
    return candidate.has_same_program ? quick_estimate(changed, run_.program) : quick_estimate(changed);
  }

  Result<void> check(const Candidate& candidate) const {
    PLIMSOLL_TRY(job, changed_job(candidate.settings));
    return check_estimable(
        {.architecture = request_.architecture, .job = job, .gpu = request_.gpu, .node = request_.node});
  }

  void drop_unsupported() {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      const Result<void> checked = check(candidate);
      if (!checked && !candidate.is_last_resort) refuse(candidate, checked.error());
      return !checked;
    });
  }

  void set_last_resorts_aside() {
    for (const Candidate& candidate : candidates_)
      if (candidate.is_last_resort) tried_.push_back({.candidate = candidate});
    std::erase_if(candidates_, &Candidate::is_last_resort);
  }

  // Keeps those that work on the most bytes, in the order of the checklist.
  void drop_costly() {
    const size_t affordable =
        std::max(kFewest, kStatementBudget / std::max<size_t>(1, run_.program.statements.size()));
    std::vector<size_t> order;
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (!candidates_[i].has_same_program) order.push_back(i);
    if (order.size() <= affordable) return;
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return candidates_[i].aim; });
    const std::set<size_t> dropped(order.begin() + static_cast<std::ptrdiff_t>(affordable), order.end());
    std::vector<Candidate> kept;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!dropped.contains(i)) {
        kept.push_back(std::move(candidates_[i]));
        continue;
      }
      if (!candidates_[i].is_combination) found_.untried.push_back(text_of(candidates_[i].settings));
      tried_.push_back({.candidate = std::move(candidates_[i])});
    }
    candidates_ = std::move(kept);
  }

  void refuse(const Candidate& candidate, const Error& error) {
    found_.unsupported.push_back(
        fmt::format("{} ({})", text_of(candidate.settings), reason_of(candidate, error)));
  }

  Change change_of(const Candidate& candidate, const QuickAnswer& answer) const {
    return {.settings = candidate.settings,
            .price = candidate.price,
            .device_peak = answer.device_peak,
            .wanted = answer.wanted,
            .saved = run_.estimate.wanted() - answer.wanted,
            .gpu = answer.gpu,
            .host = answer.host,
            .is_combination = candidate.is_combination};
  }

  void take(const Candidate& candidate, const Result<QuickAnswer>& answer) {
    if (!answer) return refuse(candidate, answer.error());
    Change change = change_of(candidate, *answer);
    if (change.saved >= kLeastSaving)
      found_.changes.push_back(change);
    else
      found_.without_effect.push_back(text_of(candidate.settings));
    tried_.push_back({.candidate = candidate, .change = std::move(change)});
  }

  std::vector<std::optional<Change>> changes_of(const std::vector<Candidate>& candidates) const {
    std::vector<std::optional<Change>> changes(candidates.size());
    in_threads(options_.threads, candidates.size(), [&](size_t i) {
      if (const Result<QuickAnswer> answer = answer_for(candidates[i]))
        changes[i] = change_of(candidates[i], *answer);
    });
    return changes;
  }

  std::optional<Change> cure() const {
    return find_cure({.now = run_.estimate.verdict,
                      .tried = tried_,
                      .is_possible = [&](const Candidate& c) { return check(c).has_value(); },
                      .estimate = [&](const auto& candidates) { return changes_of(candidates); }});
  }

  const EstimateRequest& request_;
  const EstimateRun& run_;
  const ImprovementOptions& options_;
  std::vector<Candidate> candidates_;
  std::vector<Tried> tried_;
  Improvements found_;
};

}  // namespace

std::string Change::to_text() const { return text_of(settings); }

Improvements find_improvements(const EstimateRequest& request, const EstimateRun& run,
                               const ImprovementOptions& options) {
  return Finder(request, run, options).find();
}

}  // namespace plimsoll
