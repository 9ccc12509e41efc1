#include "report/memory_stats_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "report/memory_stats_contradictions.h"

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

// A sentence on how far one counter is above another.
struct Conclusion {
  const char* larger;
  const char* smaller;
  const char* sentence;
  const char* question;
};
constexpr std::array<Conclusion, 3> kConclusions = {
    {{"reserved_bytes.all.peak", "allocated_bytes.all.peak",
      "  fragmentation: reserved stands {} above what was ever allocated at a time\n",
      "what fragmentation cost"},
     {"reserved_bytes.all.current", "allocated_bytes.all.current",
      "  cached now: {}, of which torch.cuda.empty_cache() gives back whole segments\n",
      "what is cached now"},
     // Both count a block until it can be used again.
     {"active_bytes.all.current", "requested_bytes.all.current", "  rounding of blocks in use: {}\n",
      "what rounding costs"}}};

bool rests_on(const Conclusion& conclusion, const StatsContradiction& contradiction) {
  return std::ranges::any_of(contradiction.counters, [&](const std::string& counter) {
    return counter == conclusion.larger || counter == conclusion.smaller;
  });
}

std::string conclusions_text(const RecordedMemoryStats& stats,
                             const std::vector<StatsContradiction>& contradictions) {
  std::string text;
  for (const Conclusion& conclusion : kConclusions) {
    const std::optional<Bytes> larger = stats.bytes(conclusion.larger),
                               smaller = stats.bytes(conclusion.smaller);
    const bool is_contradicted = std::ranges::any_of(
        contradictions, [&](const StatsContradiction& c) { return rests_on(conclusion, c); });
    if (larger && smaller && !is_contradicted)
      text +=
          fmt::format(fmt::runtime(conclusion.sentence), to_gib_text(std::max(*larger - *smaller, Bytes{})));
  }
  return text;
}

std::string note_of(const StatsContradiction& contradiction) {
  std::string questions;
  for (const Conclusion& conclusion : kConclusions)
    if (rests_on(conclusion, contradiction))
      questions += fmt::format("{}{}", questions.empty() ? "" : ", ", conclusion.question);
  return fmt::format("contradictory: {}; {}{}", contradiction.text,
                     questions.empty() ? "nothing is concluded from these" : "so not concluded: ", questions);
}

// Of the source, and of what contradicts in it.
std::vector<std::string> all_notes(const RecordedMemoryStats& stats,
                                   const std::vector<StatsContradiction>& contradictions) {
  constexpr size_t kMostContradictions = 20;
  std::vector<std::string> notes = stats.notes;
  for (size_t i = 0; i < std::min(contradictions.size(), kMostContradictions); ++i)
    notes.push_back(note_of(contradictions[i]));
  if (contradictions.size() > kMostContradictions)
    notes.push_back(
        fmt::format("{} more counters contradict others", contradictions.size() - kMostContradictions));
  return notes;
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

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text;
  if (!notes.empty()) text += "\nNotes\n";
  for (const std::string& note : notes) text += "  " + note + "\n";
  return text;
}

nlohmann::ordered_json json_of(const std::vector<StatsContradiction>& contradictions) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const StatsContradiction& contradiction : contradictions)
    all.push_back({{"what", contradiction.text}, {"counters", contradiction.counters}});
  return all;
}

}  // namespace

std::string memory_stats_page(const std::string& file, const RecordedMemoryStats& stats) {
  const std::vector<StatsContradiction> contradictions = contradictions_of(stats);
  const std::string notes = notes_text(all_notes(stats, contradictions));
  if (stats.is_host) return host_page(file, stats) + notes;
  std::string text = fmt::format("{}: {}, {}{} counters\n", file, stats.source,
                                 stats.device ? fmt::format("device {}, ", *stats.device) : std::string(),
                                 stats.counters.size());
  text += table_of(stats);
  return text + conclusions_text(stats, contradictions) + events_text(stats) + notes;
}

std::string memory_stats_json(const std::string& file, const std::vector<RecordedMemoryStats>& devices) {
  nlohmann::ordered_json root = {{"schema", "plimsoll.memory_stats/1"}, {"file", file}};
  nlohmann::ordered_json others = nlohmann::ordered_json::array();
  for (size_t i = 0; i < devices.size(); ++i) {
    const RecordedMemoryStats& stats = devices[i];
    const std::vector<StatsContradiction> contradictions = contradictions_of(stats);
    const nlohmann::ordered_json device = {
        {"source", stats.source},
        {"device", stats.device ? nlohmann::ordered_json(*stats.device) : nlohmann::ordered_json()},
        {"memory", stats.is_host ? "pinned host" : "device"},
        {"counters", stats.counters},
        {"contradictions", json_of(contradictions)},
        {"notes", all_notes(stats, contradictions)}};
    if (i == 0)
      root.update(device);
    else
      others.push_back(device);
  }
  root["other_devices"] = std::move(others);
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
