#include "report/memory_stats_contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

namespace plimsoll {
namespace {

constexpr std::string_view kPrivatePools = "reserved_bytes_by_private_pools.";

// What a counter, or a sum of some, may have been.
struct Figure {
  int64_t least = 0, most = 0;
  std::vector<std::string> counters;
  std::string text;

  friend Figure operator+(Figure a, const Figure& b) {
    a.least = saturating_add(a.least, b.least);
    a.most = saturating_add(a.most, b.most);
    a.counters.insert(a.counters.end(), b.counters.begin(), b.counters.end());
    a.text += " and " + b.text;
    return a;
  }
};
using MaybeFigure = std::optional<Figure>;

bool is_of_bytes(std::string_view name) { return name.find("bytes") != std::string_view::npos; }

class Contradictions {
 public:
  explicit Contradictions(const RecordedMemoryStats& stats) : stats_(stats) {}

  std::vector<StatsContradiction> all() {
    compare_each_with_itself();
    if (stats_.is_host) return std::move(found_);
    if (has_pools()) compare_pools();
    for (const std::string pool : {".all", ".small_pool", ".large_pool"}) compare_quantities(pool);
    compare_private_pools();
    return std::move(found_);
  }

 private:
  // Nothing where the counter isn't known or is contradicted already.
  MaybeFigure figure(const std::string& name) const {
    const std::optional<int64_t> value = stats_.counter(name);
    if (!value || contradicted_.contains(name)) return std::nullopt;
    const auto cut = stats_.cut_by.find(name);
    return Figure{.least = *value,
                  .most = saturating_add(*value, cut == stats_.cut_by.end() ? 0 : cut->second),
                  .counters = {name},
                  .text = fmt::format("{} {}", name,
                                      is_of_bytes(name) ? to_text(Bytes{*value}) : with_thousands(*value))};
  }
  void expect_at_most(const MaybeFigure& smaller, const MaybeFigure& larger) {
    if (!smaller || !larger || smaller->least <= larger->most) return;
    StatsContradiction contradiction{.text = fmt::format("{} above {}", smaller->text, larger->text),
                                     .counters = smaller->counters};
    contradiction.counters.insert(contradiction.counters.end(), larger->counters.begin(),
                                  larger->counters.end());
    contradicted_.insert(contradiction.counters.begin(), contradiction.counters.end());
    found_.push_back(std::move(contradiction));
  }

  void compare_each_with_itself() {
    constexpr std::string_view kCurrent = ".current";
    for (const auto& [name, value] : stats_.counters) {
      if (!name.ends_with(kCurrent)) continue;
      const std::string quantity = name.substr(0, name.size() - kCurrent.size());
      expect_at_most(figure(name), figure(quantity + ".peak"));
      const MaybeFigure freed = figure(quantity + ".freed"), current = figure(name);
      if (freed && current) expect_at_most(figure(quantity + ".allocated"), *current + *freed);
    }
  }

  bool has_pools() const {
    return std::ranges::any_of(stats_.counters, [](const auto& counter) {
      const std::string_view name = counter.first;
      return counter.second > 0 && !name.starts_with(kPrivatePools) &&
             (name.find(".small_pool.") != std::string_view::npos ||
              name.find(".large_pool.") != std::string_view::npos);
    });
  }
  void compare_pools() {
    constexpr std::string_view kAll = ".all.";
    for (const auto& [name, value] : stats_.counters) {
      const size_t at = name.find(kAll);
      if (at == std::string::npos || name.starts_with(kPrivatePools)) continue;
      const std::string quantity = name.substr(0, at), metric = name.substr(at + kAll.size());
      const MaybeFigure small = figure(fmt::format("{}.small_pool.{}", quantity, metric)),
                        large = figure(fmt::format("{}.large_pool.{}", quantity, metric));
      if (metric == "peak") {
        expect_at_most(small, figure(name));
        expect_at_most(large, figure(name));
      }
      if (!small || !large) continue;
      expect_at_most(figure(name), *small + *large);
      if (metric != "peak") expect_at_most(*small + *large, figure(name));
    }
  }

  void compare_quantities(const std::string& pool) {
    struct Order {
      const char *smaller, *larger;
    };
    constexpr std::array<Order, 4> kOrders = {{{"allocated_bytes", "active_bytes"},
                                               {"requested_bytes", "active_bytes"},
                                               {"active_bytes", "reserved_bytes"},
                                               {"allocation", "active"}}};
    for (const std::string metric : {".current", ".peak"})
      for (const Order& order : kOrders)
        expect_at_most(figure(fmt::format("{}{}{}", order.smaller, pool, metric)),
                       figure(fmt::format("{}{}{}", order.larger, pool, metric)));
    const MaybeFigure active = figure("active_bytes" + pool + ".current"),
                      split = figure("inactive_split_bytes" + pool + ".current");
    if (active && split) expect_at_most(*active + *split, figure("reserved_bytes" + pool + ".current"));
  }

  void compare_private_pools() {
    MaybeFigure sum;
    for (const auto& [name, value] : stats_.counters) {
      if (!name.starts_with(kPrivatePools) || !name.ends_with(".all.current")) continue;
      const MaybeFigure pool = figure(name);
      if (pool) sum = sum ? *sum + *pool : *pool;
    }
    expect_at_most(sum, figure("reserved_bytes.all.current"));
  }

  const RecordedMemoryStats& stats_;
  std::vector<StatsContradiction> found_;
  std::set<std::string> contradicted_;
};

}  // namespace

std::vector<StatsContradiction> contradictions_of(const RecordedMemoryStats& stats) {
  return Contradictions(stats).all();
}

}  // namespace plimsoll
