#include "importers/memory_stats/memory_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace plimsoll {
namespace {

constexpr std::string_view kTitle = "memory summary, device ID ";

struct Metric {
  std::string_view title, counter;
  bool is_size;
};
constexpr std::array<Metric, 11> kMetrics = {{{"Allocated memory", "allocated_bytes", true},
                                              {"Active memory", "active_bytes", true},
                                              {"Requested memory", "requested_bytes", true},
                                              {"GPU reserved memory", "reserved_bytes", true},
                                              {"Non-releasable memory", "inactive_split_bytes", true},
                                              {"Allocations", "allocation", false},
                                              {"Active allocs", "active", false},
                                              {"GPU reserved segments", "segment", false},
                                              {"Non-releasable allocs", "inactive_split", false},
                                              {"Oversize allocations", "oversize_allocations", false},
                                              {"Oversize GPU segments", "oversize_segments", false}}};
constexpr std::array<std::string_view, 4> kFigures = {"current", "peak", "allocated", "freed"};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  size_t bar = line.find('|');
  while (bar != std::string_view::npos) {
    const size_t next = line.find('|', bar + 1);
    if (next != std::string_view::npos) cells.push_back(trimmed(line.substr(bar + 1, next - bar - 1)));
    bar = next;
  }
  return cells;
}

struct Cell {
  int64_t figure = 0, unit = 1;
};

// "184648 KiB", "2721 MB", "512 B": whole numbers of a unit.
std::optional<Cell> size_in(std::string_view cell) {
  std::string size(cell);
  if (size.size() > 2 && size.ends_with('B') &&
      std::string_view("KMGTP").find(size[size.size() - 2]) != std::string_view::npos)
    size.insert(size.size() - 1, "i");
  const std::optional<Bytes> bytes = parse_bytes(size);
  if (!bytes || bytes->value < 0) return std::nullopt;
  const std::optional<Bytes> unit = parse_bytes("1" + size.substr(std::min(size.find(' '), size.size())));
  return Cell{.figure = bytes->value, .unit = unit ? unit->value : 1};
}

// "4102", "9 K", "12 M".
std::optional<Cell> count_in(std::string_view cell) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), count);
  if (error != std::errc() || count < 0) return std::nullopt;
  const std::string_view unit = trimmed(cell.substr(static_cast<size_t>(end - cell.data())));
  if (!unit.empty() && unit != "K" && unit != "M") return std::nullopt;
  const int64_t one = unit == "K" ? 1000 : unit == "M" ? 1'000'000 : 1;
  return Cell{.figure = saturating_multiply(count, one), .unit = one};
}

class Tables {
 public:
  explicit Tables(const std::string& file) : file_(file) {}

  Result<void> read(std::string_view line, int number) {
    if (const size_t at = line.find(kTitle); at != std::string_view::npos) {
      begin(line.substr(at + kTitle.size()));
      return {};
    }
    if (!now_) return {};
    const std::vector<std::string_view> cells = cells_of(line);
    if (cells.size() == 2) add_failures(cells);
    if (cells.empty()) return {};
    std::string_view pool = "all";
    if (cells[0] == "from large pool") pool = "large_pool";
    if (cells[0] == "from small pool") pool = "small_pool";
    if (pool == "all") metric_ = metric_of(cells[0]);
    return metric_ ? add_row(cells, pool, number) : Result<void>{};
  }

  std::vector<RecordedMemoryStats> finish() {
    for (size_t i = 0; i < all_.size(); ++i)
      if (times_[i] > 1)
        all_[i].notes.push_back(fmt::format("the last of {} tables of this device", times_[i]));
    return std::move(all_);
  }

 private:
  static const Metric* metric_of(std::string_view title) {
    const auto* const metric = std::ranges::find(kMetrics, title, &Metric::title);
    return metric == kMetrics.end() ? nullptr : metric;
  }

  void begin(std::string_view behind_title) {
    int device = 0;
    std::from_chars(behind_title.data(), behind_title.data() + behind_title.size(), device);
    auto known = std::ranges::find(all_, std::optional(device), &RecordedMemoryStats::device);
    if (known == all_.end()) {
      all_.emplace_back();
      times_.push_back(0);
      known = all_.end() - 1;
    }
    *known = {.source = "torch.cuda.memory_summary()", .device = device};
    known->notes.emplace_back("the table cuts sizes down to whole units");
    now_ = static_cast<size_t>(known - all_.begin());
    ++times_[*now_];
    metric_ = nullptr;
  }

  // "CUDA OOMs: 0" and "cudaMalloc retries: 0".
  void add_failures(const std::vector<std::string_view>& cells) {
    for (const auto& [words, counter] :
         {std::pair("OOMs: ", "num_ooms"), std::pair("retries: ", "num_alloc_retries")})
      for (const std::string_view cell : cells)
        if (const size_t at = cell.find(words); at != std::string_view::npos)
          if (const auto count = count_in(cell.substr(at + std::string_view(words).size())))
            all_[*now_].counters[counter] = count->figure;
  }

  Result<void> add_row(const std::vector<std::string_view>& cells, std::string_view pool, int line) {
    const bool is_oversize = metric_->counter.starts_with("oversize");
    for (size_t i = 0; i < kFigures.size(); ++i) {
      std::optional<Cell> cell;
      if (cells.size() == kFigures.size() + 1)
        cell = metric_->is_size ? size_in(cells[i + 1]) : count_in(cells[i + 1]);
      if (!cell)
        return fail({.position = {.file = file_, .line = line},
                     .message = fmt::format("the row \"{}\" of a memory summary is not whole", cells[0]),
                     .expected = "four figures between bars, such as \"184648 KiB\"",
                     .hint = "paste the table without wrapping its lines"});
      const std::string name = is_oversize ? fmt::format("{}.{}", metric_->counter, kFigures[i])
                                           : fmt::format("{}.{}.{}", metric_->counter, pool, kFigures[i]);
      all_[*now_].counters[name] = cell->figure;
      if (cell->unit > 1) all_[*now_].cut_by[name] = cell->unit - 1;
    }
    return {};
  }

  const std::string& file_;
  std::vector<RecordedMemoryStats> all_;
  std::vector<int64_t> times_;  // tables, by device
  std::optional<size_t> now_;
  const Metric* metric_ = nullptr;
};

}  // namespace

bool sniff_memory_summary(std::string_view text) { return text.find(kTitle) != std::string_view::npos; }

Result<std::vector<RecordedMemoryStats>> read_memory_summaries(std::string_view text,
                                                               const std::string& file) {
  Tables tables(file);
  int number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    PLIMSOLL_CHECK(tables.read(text.substr(begin, end - begin), number));
    begin = end + 1;
  }
  std::vector<RecordedMemoryStats> all = tables.finish();
  if (all.empty() || std::ranges::all_of(all, [](const auto& stats) { return stats.counters.empty(); }))
    return fail({.position = {.file = file},
                 .message = "holds no table of torch.cuda.memory_summary()",
                 .expected = "rows such as \"| Allocated memory | 512 B | ...\""});
  return all;
}

}  // namespace plimsoll
