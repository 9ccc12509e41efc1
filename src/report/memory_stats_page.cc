#include "report/memory_stats_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text_table.h"

namespace plimsoll {
namespace {

struct Row {
  const char* title;
  const char* quantity;
};
constexpr std::array<Row, 5> kRows = {{{"requested", "requested_bytes"},
                                       {"allocated", "allocated_bytes"},
                                       {"active", "active_bytes"},
                                       {"reserved", "reserved_bytes"},
                                       {"cached beside live blocks", "inactive_split_bytes"}}};

std::string cell(const RecordedMemoryStats& stats, const std::string& name) {
  const std::optional<Bytes> bytes = stats.bytes(name);
  return bytes ? to_gib_text(*bytes) : "";
}

std::string table_of(const RecordedMemoryStats& stats) {
  TextTable table({"", "now", "peak", "peak, small pool", "peak, large pool"},
                  {Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight});
  for (const Row& row : kRows) {
    const std::string quantity = row.quantity;
    if (!stats.bytes(quantity + ".all.current") && !stats.bytes(quantity + ".all.peak")) continue;
    table.add({row.title, cell(stats, quantity + ".all.current"), cell(stats, quantity + ".all.peak"),
               cell(stats, quantity + ".small_pool.peak"), cell(stats, quantity + ".large_pool.peak")});
  }
  return table.to_text(2);
}

// The difference of two counters, where both are there.
std::string difference(const RecordedMemoryStats& stats, const std::string& larger,
                       const std::string& smaller, const char* format) {
  const std::optional<Bytes> a = stats.bytes(larger), b = stats.bytes(smaller);
  return a && b ? fmt::format(fmt::runtime(format), to_gib_text(std::max(*a - *b, Bytes{}))) : std::string();
}

std::string events_text(const RecordedMemoryStats& stats) {
  std::string text;
  const int64_t retries = stats.counter("num_alloc_retries").value_or(0);
  const int64_t failures = stats.counter("num_ooms").value_or(0);
  if (retries > 0)
    text +=
        fmt::format("  {} the device was full, and all cached segments were given back to try again: slow\n",
                    retries == 1 ? "once" : with_thousands(retries) + " times");
  if (failures > 0)
    text += fmt::format("  {} failed: out of memory\n",
                        failures == 1 ? "one request" : with_thousands(failures) + " requests");
  return text;
}

// Of torch.cuda.host_memory_stats().
std::string host_page(const std::string& file, const RecordedMemoryStats& stats) {
  std::string text =
      fmt::format("{}: {}, {} counters of pinned host memory\n", file, stats.source, stats.counters.size());
  TextTable table({"", "now", "peak"}, {Align::kLeft, Align::kRight, Align::kRight});
  const auto row = [&](const char* title, const std::string& quantity) {
    if (stats.bytes(quantity + ".current") || stats.bytes(quantity + ".peak"))
      table.add({title, cell(stats, quantity + ".current"), cell(stats, quantity + ".peak")});
  };
  const bool is_old = stats.counter("reserved_bytes.peak").has_value();  // before PyTorch 2.9
  row("in use", is_old ? "allocated_bytes" : "active_bytes");
  row("held, with what is cached", is_old ? "reserved_bytes" : "allocated_bytes");
  text += table.to_text(2);
  text +=
      "  every request takes the next power of two; freed blocks stay pinned, for the next request of their "
      "size\n";
  if (const auto calls = stats.counter("num_host_alloc"))
    text += fmt::format("  {} calls to the driver for new blocks: each is slow\n", with_thousands(*calls));
  return text;
}

std::string notes_text(const RecordedMemoryStats& stats) {
  std::string text;
  if (!stats.notes.empty()) text += "\nNotes\n";
  for (const std::string& note : stats.notes) text += "  " + note + "\n";
  return text;
}

}  // namespace

std::string memory_stats_page(const std::string& file, const RecordedMemoryStats& stats) {
  if (stats.is_host) return host_page(file, stats) + notes_text(stats);
  std::string text = fmt::format("{}: {}, {}{} counters\n", file, stats.source,
                                 stats.device ? fmt::format("device {}, ", *stats.device) : std::string(),
                                 stats.counters.size());
  text += table_of(stats);
  text += difference(stats, "reserved_bytes.all.peak", "allocated_bytes.all.peak",
                     "  fragmentation: reserved stands {} above what was ever allocated at a time\n");
  text += difference(stats, "reserved_bytes.all.current", "allocated_bytes.all.current",
                     "  cached now: {}, of which torch.cuda.empty_cache() gives back whole segments\n");
  text += difference(stats, "allocated_bytes.all.current", "requested_bytes.all.current",
                     "  rounding of live blocks: {}\n");
  return text + events_text(stats) + notes_text(stats);
}

std::string memory_stats_json(const std::string& file, const std::vector<RecordedMemoryStats>& devices) {
  nlohmann::ordered_json root = {{"schema", "plimsoll.memory_stats/1"}, {"file", file}};
  nlohmann::ordered_json others = nlohmann::ordered_json::array();
  for (size_t i = 0; i < devices.size(); ++i) {
    const RecordedMemoryStats& stats = devices[i];
    const nlohmann::ordered_json device = {
        {"source", stats.source},
        {"device", stats.device ? nlohmann::ordered_json(*stats.device) : nlohmann::ordered_json()},
        {"memory", stats.is_host ? "pinned host" : "device"},
        {"counters", stats.counters},
        {"notes", stats.notes}};
    if (i == 0)
      root.update(device);
    else
      others.push_back(device);
  }
  root["other_devices"] = std::move(others);
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
