#include "estimate/cure.h"

#include <algorithm>
#include <map>

namespace plimsoll {
namespace {

using Settings = std::vector<std::string>;
using Parts = std::vector<const Tried*>;

// Whether `a` does less for the field that it shares with `b`, or no more as far as is known.
bool is_weaker(const Tried& a, const Tried& b) {
  return a.change && b.change ? a.change->saved < b.change->saved : a.candidate.aim <= b.candidate.aim;
}

Candidate merged(const Parts& parts) {
  Candidate all{.is_combination = parts.size() > 1};
  std::vector<std::string> prices;
  for (const Tried* part : parts) {
    const Candidate& c = part->candidate;
    all.settings.insert(all.settings.end(), c.settings.begin(), c.settings.end());
    all.has_same_program = parts.size() == 1 && c.has_same_program;
    prices.push_back(c.price);
  }
  all.price = joined_prices(prices);
  return all;
}

class Search {
 public:
  explicit Search(const CureSearch& search) : search_(search) {
    for (const Tried& t : search.tried) {
      if (!t.candidate.is_combination) sorted_.push_back(&t);
      if (t.change) estimated_[sorted_settings(t.candidate)] = t.change;
    }
    std::ranges::stable_sort(sorted_, {}, [](const Tried* t) {
      return std::pair(t->candidate.rank, t->candidate.is_last_resort);
    });
  }

  std::optional<Change> find() {
    if (auto cure = reaching(Fit::kFits)) return cure;
    return search_.now.gpu == Fit::kOutOfMemory ? reaching(Fit::kAtRisk) : std::nullopt;
  }

 private:
  std::optional<Change> reaching(Fit goal) {
    goal_ = goal;
    for (const bool is_any : {false, true}) {
      if (auto cure = single(is_any)) return cure;
      if (auto cure = several(is_any)) return cure;
    }
    return std::nullopt;
  }

  // The host may be as badly off as it is anyway.
  bool reaches(const Change& change) const {
    return change.gpu <= goal_ && change.host <= std::max(goal_, search_.now.host);
  }
  static bool is_among(const Tried& t, bool is_any) { return is_any || t.candidate.rank < Price::kTogether; }

  std::optional<Change> single(bool is_any) const {
    for (const Tried* t : sorted_)
      if (is_among(*t, is_any) && t->change && reaches(*t->change)) return t->change;
    return std::nullopt;
  }

  // Each list is the one before it and the next change in the order of price.
  std::vector<Parts> growing_lists(bool is_any) const {
    std::vector<Parts> lists;
    Parts parts;
    for (const Tried* t : sorted_) {
      if (!is_among(*t, is_any)) continue;
      Parts more = parts;
      const auto clashes = [&](const Tried* p) { return have_common_field(p->candidate, t->candidate); };
      if (std::ranges::any_of(more, [&](const Tried* p) { return clashes(p) && !is_weaker(*p, *t); }))
        continue;
      std::erase_if(more, clashes);
      more.push_back(t);
      if (!search_.is_possible(merged(more))) continue;
      parts = std::move(more);
      lists.push_back(parts);
    }
    return lists;
  }

  // The shortest list that does, if the longest does: more changes need no more memory, nearly always. Two
  // lists are estimated at a time.
  std::optional<Change> several(bool is_any) {
    const std::vector<Parts> lists = growing_lists(is_any);
    const auto is_cheap = [](const Parts& parts) {
      return std::ranges::all_of(parts, [](const Tried* t) { return is_among(*t, false); });
    };
    size_t low = 0;  // lists before it don't do: the cheap ones were looked at before
    if (is_any) low = static_cast<size_t>(std::ranges::count_if(lists, is_cheap));
    if (low >= lists.size()) return std::nullopt;
    size_t high = lists.size() - 1;
    const bool is_known = estimated_.contains(sorted_settings(merged(lists[high])));
    if (is_known && !change_for(lists[high])) return std::nullopt;
    estimate({lists[high], lists[(low + high) / 2]});
    if (!change_for(lists[high])) return std::nullopt;
    while (low < high) {
      const size_t third = (high - low) / 3, one = low + third, other = high - 1 - third;
      estimate({lists[one], lists[other]});
      if (change_for(lists[one])) {
        high = one;
      } else if (change_for(lists[other])) {
        low = one + 1;
        high = other;
      } else {
        low = other + 1;
      }
    }
    return without_idle(lists[high]);
  }

  // Without the changes that save nothing alone, if that does too.
  std::optional<Change> without_idle(const Parts& parts) {
    Parts fewer = parts;
    std::erase_if(fewer, [](const Tried* t) { return t->change && t->change->saved < kLeastSaving; });
    if (!fewer.empty() && fewer.size() < parts.size() && search_.is_possible(merged(fewer))) {
      estimate({fewer});
      if (auto change = change_for(fewer)) return change;
    }
    return change_for(parts);
  }

  static Settings sorted_settings(const Candidate& candidate) {
    Settings settings = candidate.settings;
    std::ranges::sort(settings);
    return settings;
  }

  void estimate(const std::vector<Parts>& lists) {
    std::vector<Candidate> unknown;
    std::vector<Settings> keys;
    for (const Parts& parts : lists) {
      Candidate candidate = merged(parts);
      Settings key = sorted_settings(candidate);
      if (estimated_.contains(key) || std::ranges::find(keys, key) != keys.end()) continue;
      unknown.push_back(std::move(candidate));
      keys.push_back(std::move(key));
    }
    std::vector<std::optional<Change>> changes = search_.estimate(unknown);
    for (size_t i = 0; i < keys.size(); ++i) estimated_[keys[i]] = std::move(changes[i]);
  }

  // Empty unless it reaches the goal. REQUIRES estimated.
  std::optional<Change> change_for(const Parts& parts) const {
    const std::optional<Change>& change = estimated_.at(sorted_settings(merged(parts)));
    return change && reaches(*change) ? change : std::nullopt;
  }

  const CureSearch& search_;
  Fit goal_ = Fit::kFits;
  Parts sorted_;
  std::map<Settings, std::optional<Change>> estimated_;
};

}  // namespace

std::optional<Change> find_cure(const CureSearch& search) { return Search(search).find(); }

}  // namespace plimsoll
