#include "estimate/cure.h"

#include <algorithm>
#include <map>
#include <set>

#include "estimate/needed_parts.h"

namespace plimsoll {
namespace {

using Settings = std::vector<std::string>;
using Parts = std::vector<size_t>;  // of CureSearch::tried

constexpr int64_t kFarFromEnough = 5;  // one part in so many of the GPU's memory

// Changes that are looked at together: what they may cost, and what is new over the circles before.
struct Circle {
  std::set<Price> prices, added;
};

std::set<Price> up_to(Price last) {
  std::set<Price> prices;
  for (int p = 0; p <= static_cast<int>(last); ++p) prices.insert(static_cast<Price>(p));
  return prices;
}

std::vector<Circle> circles() {
  std::vector<Circle> all;
  for (const Price last :
       {Price::kMoreCompute, Price::kSlower, Price::kOtherOptimizer, Price::kShorterSequence})
    all.push_back({.prices = up_to(last), .added = {last}});
  all[0].added = all[0].prices;
  std::set<Price> elsewhere = all[1].prices;
  elsewhere.insert(Price::kMoreHardware);
  all.push_back({.prices = elsewhere, .added = {Price::kMoreHardware}});
  all.push_back({.prices = up_to(Price::kMoreHardware), .added = {}});
  return all;
}

class Search {
 public:
  explicit Search(const CureSearch& search) : search_(search) {
    for (size_t i = 0; i < search.tried.size(); ++i) {
      by_price_.push_back(i);
      const Tried& t = search.tried[i];
      if (t.change) estimated_[key_of(t.candidate)] = t.change;
    }
    std::ranges::stable_sort(by_price_, {}, [&](size_t i) { return of(i).rank; });
  }

  std::optional<Change> find() {
    if (auto cure = reaching(Fit::kFits)) return cure;
    const bool is_oom = std::max(search_.now.gpu, search_.now.host) == Fit::kOutOfMemory;
    return is_oom ? reaching(Fit::kAtRisk) : std::nullopt;
  }

 private:
  std::optional<Change> reaching(Fit goal) {
    goal_ = goal;
    for (const Circle& circle : circles()) {
      circle_ = &circle;
      if (auto cure = single()) return cure;
      if (auto cure = several()) return cure;
    }
    return std::nullopt;
  }

  const Candidate& of(size_t i) const { return search_.tried[i].candidate; }
  bool is_allowed(size_t i) const { return circle_->prices.contains(of(i).rank); }
  bool is_new(size_t i) const { return circle_->added.contains(of(i).rank); }
  bool hurts(size_t i) const {
    const std::optional<Change>& change = search_.tried[i].change;
    return change && change->saved <= Bytes{0} - kLeastSaving && change->host_saved <= Bytes{0};
  }
  bool is_one_way(size_t a, size_t b) const {
    return field_of(of(a).settings[0]) == field_of(of(b).settings[0]);
  }

  Candidate candidate_of(const Parts& parts) const {
    std::vector<const Candidate*> candidates;
    for (const size_t i : parts) candidates.push_back(&of(i));
    return merged(candidates);
  }
  bool is_possible(const Parts& parts) const { return search_.is_possible(candidate_of(parts)); }

  // ---- one change ----

  // What may be done alone, each way's steps of one price together.
  std::vector<Parts> ways() const {
    std::vector<Parts> ways;
    for (const size_t i : by_price_) {
      if (!is_new(i) || of(i).role == Role::kAddition) continue;
      const auto is_same = [&](const Parts& way) {
        return is_one_way(way[0], i) && of(way[0]).rank == of(i).rank;
      };
      const auto found = std::ranges::find_if(ways, is_same);
      if (found == ways.end())
        ways.push_back({i});
      else
        found->push_back(i);
    }
    return ways;
  }

  std::optional<Change> single() {
    const std::vector<Parts> all = ways();
    std::vector<Parts> furthest;
    for (const Parts& way : all) furthest.push_back({way.back()});
    estimate(furthest);
    for (const Parts& way : all)
      if (const auto step = weakest_step(way, {})) return change_for({*step});
    return std::nullopt;
  }

  // The first step that reaches the goal together with `others`. Steps beyond one that does are taken to do.
  std::optional<size_t> weakest_step(const Parts& way, const Parts& others) {
    size_t end = way.size();
    for (size_t i = 0; i < way.size() && end == way.size(); ++i)
      if (is_known_to_reach(with(others, way[i]))) end = i;
    if (end == way.size()) return std::nullopt;
    size_t first = 0;
    while (first < end) {
      const size_t middle = first + (end - first) / 2;
      if (reaches(with(others, way[middle])))
        end = middle;
      else
        first = middle + 1;
    }
    return way[end];
  }

  // ---- several changes ----

  std::optional<Change> several() {
    const bool some_hurt =
        std::ranges::any_of(by_price_, [&](size_t i) { return is_allowed(i) && hurts(i); });
    for (const bool takes_all : {false, true}) {
      if (takes_all && !some_hurt) continue;
      const std::vector<Parts> lists = growing_lists(false, takes_all);
      if (auto cure = cheapest(lists)) return cure;
      if (!lists.empty() && has_all_new(lists.back())) continue;
      if (auto cure = cheapest(growing_lists(true, takes_all))) return cure;
    }
    return std::nullopt;
  }

  bool has_all_new(const Parts& parts) const {
    return std::ranges::all_of(by_price_, [&](size_t i) {
      const auto is_way = [&](size_t part) { return is_one_way(part, i); };
      return !is_new(i) || std::ranges::any_of(parts, is_way);
    });
  }

  // Each list is the one before it and the next change in the order of price, or a way's next step. What
  // isn't possible beside cheaper ones is left out, or displaces them.
  std::vector<Parts> growing_lists(bool displaces, bool takes_all) const {
    std::vector<Parts> lists;
    Parts waiting;  // for a change that makes them possible
    const auto take = [&](size_t i) {
      const Parts before = lists.empty() ? Parts() : lists.back();
      const Parts after = joined(before, i, displaces);
      if (!after.empty() && after != before) lists.push_back(after);
      return !after.empty();
    };
    for (const size_t i : by_price_) {
      if (!is_allowed(i) || (hurts(i) && !takes_all)) continue;
      if (!take(i))
        waiting.push_back(i);
      else
        std::erase_if(waiting, take);
    }
    return lists;
  }

  // `parts` and one more, which replaces weaker steps of its way; `parts` where a further step is among them;
  // empty where it isn't possible.
  Parts joined(Parts parts, size_t i, bool displaces) const {
    std::erase_if(parts, [&](size_t part) { return part < i && is_one_way(part, i); });
    const auto clashes = [&](size_t part) { return have_common_field(of(part), of(i)); };
    if (std::ranges::any_of(parts, clashes)) return parts;
    if (is_possible(with(parts, i))) return with(parts, i);
    if (!displaces || of(i).role == Role::kAddition) return {};
    std::erase_if(parts, [&](size_t part) { return !is_possible({part, i}); });
    return is_possible(with(parts, i)) ? with(parts, i) : Parts();
  }

  // The shortest list that does, if the longest does, without what it does without.
  std::optional<Change> cheapest(const std::vector<Parts>& lists) {
    if (lists.empty()) return std::nullopt;
    size_t low = 0, high = lists.size() - 1;
    estimate({lists[high], lists[high / 2]});
    if (!is_known_to_reach(lists[high])) return answer(without_one(lists[high]));
    while (low < high) {
      const size_t third = (high - low) / 3, one = low + third, other = high - 1 - third;
      estimate({lists[one], lists[other]});
      if (is_known_to_reach(lists[one])) {
        high = one;
      } else if (is_known_to_reach(lists[other])) {
        low = one + 1;
        high = other;
      } else {
        low = other + 1;
      }
    }
    if (high > 0)
      if (auto cure = answer(without_one(lists[high - 1]))) return cure;
    return answer(lists[high]);
  }

  // What doesn't do may do without a change that hurts in this company.
  std::optional<Parts> without_one(const Parts& parts) {
    std::vector<Parts> lists;
    for (size_t left_out = parts.size(); parts.size() > 1 && left_out-- > 0;) {
      Parts fewer = parts;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(left_out));
      if (is_possible(fewer)) lists.push_back(std::move(fewer));
    }
    if (!is_nearly_enough(parts)) return std::nullopt;
    estimate(lists);
    const auto found =
        std::ranges::find_if(lists, [&](const Parts& list) { return is_known_to_reach(list); });
    return found == lists.end() ? std::nullopt : std::optional(*found);
  }

  // Of changes that were estimated: what is out of reach stays so without one of them.
  bool is_nearly_enough(const Parts& parts) const {
    const auto found = estimated_.find(key_of(candidate_of(parts)));
    if (found == estimated_.end() || !found->second) return false;
    return found->second->wanted - search_.device_limit <= search_.device_limit / kFarFromEnough;
  }

  // Again while something changes: what was needed beside others may be idle without them.
  std::optional<Change> answer(std::optional<Parts> parts) {
    if (!parts) return std::nullopt;
    for (Parts before; before != *parts;) {
      before = *parts;
      parts = taken_back(needed(*parts));
    }
    return change_for(*parts);
  }

  Parts needed(Parts parts) {
    std::ranges::stable_sort(parts, {}, [&](size_t i) { return of(i).rank; });
    return needed_parts(parts, parts, [&](const std::vector<Parts>& lists) {
      std::vector<Parts> possible;
      for (const Parts& list : lists)
        if (is_possible(list)) possible.push_back(list);
      estimate(possible);
      std::vector<bool> does;
      for (const Parts& list : lists) does.push_back(is_known_to_reach(list));
      return does;
    });
  }

  // Each way only as far as it takes, the dear ones first.
  Parts taken_back(Parts parts) {
    for (size_t p = parts.size(); p-- > 0;) {
      Parts others = parts, way;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(p));
      for (size_t i = 0; i <= parts[p]; ++i)
        if (is_one_way(i, parts[p]) && is_allowed(i) && is_possible(with(others, i))) way.push_back(i);
      if (const auto step = weakest_step(way, others)) parts[p] = *step;
    }
    return parts;
  }

  static Parts with(Parts others, size_t i) {
    others.push_back(i);
    return others;
  }

  // ---- answers ----

  static Settings key_of(const Candidate& candidate) {
    Settings settings = candidate.settings;
    std::ranges::sort(settings);
    return settings;
  }

  void estimate(const std::vector<Parts>& lists) {
    std::vector<Candidate> unknown;
    std::vector<Settings> keys;
    for (const Parts& parts : lists) {
      if (!may_relieve_host(parts)) continue;
      Candidate candidate = candidate_of(parts);
      Settings key = key_of(candidate);
      if (estimated_.contains(key) || std::ranges::find(keys, key) != keys.end()) continue;
      unknown.push_back(std::move(candidate));
      keys.push_back(std::move(key));
    }
    if (unknown.empty()) return;
    std::vector<std::optional<Change>> changes = search_.estimate(unknown);
    for (size_t i = 0; i < keys.size(); ++i) estimated_[keys[i]] = std::move(changes[i]);
  }

  // Where the host is short, nothing helps without a change that takes from it.
  bool may_relieve_host(const Parts& parts) const {
    return search_.now.host <= goal_ ||
           std::ranges::any_of(parts, [&](size_t i) { return of(i).takes_from_host; });
  }

  bool is_known_to_reach(const Parts& parts) const {
    const auto found = estimated_.find(key_of(candidate_of(parts)));
    return found != estimated_.end() && found->second && found->second->worst() <= goal_;
  }
  bool reaches(const Parts& parts) {
    estimate({parts});
    return is_known_to_reach(parts);
  }

  // In the order of price. REQUIRES that it is known to reach the goal.
  Change change_for(Parts parts) const {
    std::ranges::stable_sort(parts, {}, [&](size_t i) { return of(i).rank; });
    const Candidate candidate = candidate_of(parts);
    Change change = *estimated_.at(key_of(candidate));
    change.settings = candidate.settings;
    change.price = candidate.price;
    change.is_combination = candidate.is_combination;
    return change;
  }

  const CureSearch& search_;
  Fit goal_ = Fit::kFits;
  const Circle* circle_ = nullptr;
  std::vector<size_t> by_price_;
  std::map<Settings, std::optional<Change>> estimated_;
};

}  // namespace

std::optional<Change> find_cure(const CureSearch& search) { return Search(search).find(); }

}  // namespace plimsoll
