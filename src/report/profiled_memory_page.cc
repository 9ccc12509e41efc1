#include "report/profiled_memory_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/text_table.h"
#include "report/plot.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

std::string device_name(const ProfiledDevice& d) {
  if (d.is_host) return "host memory";
  return d.name.empty() ? fmt::format("GPU {}", d.device) : fmt::format("GPU {} ({})", d.device, d.name);
}

std::string milliseconds(Nanoseconds time) {
  return fmt::format("{:.1f} ms", static_cast<double>(time.value) / 1e6);
}

std::string when(const ProfiledDevice& d, size_t instant) {
  return milliseconds(d.instants[instant].time - d.instants.front().time) + " into the trace";
}

std::string peaks_text(const ProfiledDevice& d, const ProfiledPeak& peak) {
  TextTable table({"", "peak", "when", "at the end"},
                  {Align::kLeft, Align::kRight, Align::kLeft, Align::kRight});
  const MemoryInstant& last = d.instants.back();
  table.add(
      {"allocated", to_gib_text(peak.allocated), when(d, peak.allocated_at), to_gib_text(last.allocated)});
  table.add({"reserved", to_gib_text(peak.reserved), when(d, peak.reserved_at), to_gib_text(last.reserved)});
  std::string text = table.to_text(2);
  if (d.capacity) text += fmt::format("  of {} of the device\n", to_gib_text(*d.capacity));
  return text;
}

std::string curve_text(const ProfiledDevice& d) {
  const size_t columns = std::min<size_t>(static_cast<size_t>(PlotSize().columns), d.instants.size());
  std::vector<int64_t> peaks(columns, 0);
  for (size_t i = 0; i < d.instants.size(); ++i) {
    int64_t& peak = peaks[i * columns / d.instants.size()];
    peak = std::max(peak, d.instants[i].allocated.value);
  }
  return "\nAllocated memory, instant by instant\n" + plot_columns(peaks, PlotSize().rows);
}

std::string blocks_text(const ProfiledDevice& d, const ProfiledPeak& peak, size_t most) {
  struct Group {
    int64_t count = 0;
    Nanoseconds first, last;
  };
  std::map<int64_t, Group, std::greater<>> by_size;
  for (const MemoryInstant& block : peak.blocks) {
    Group& group = by_size[block.bytes.value];
    if (group.count++ == 0) group.first = group.last = block.time;
    group.first = std::min(group.first, block.time);
    group.last = std::max(group.last, block.time);
  }
  std::vector<std::pair<int64_t, Group>> groups(by_size.begin(), by_size.end());
  std::ranges::stable_sort(groups, std::greater<>(), [](const auto& g) { return g.first * g.second.count; });
  TextTable table({"total", "blocks", "each", "allocated between"},
                  {Align::kRight, Align::kRight, Align::kRight, Align::kLeft});
  const Nanoseconds start = d.instants.front().time;
  for (size_t i = 0; i < std::min(most, groups.size()); ++i) {
    const auto& [size, group] = groups[i];
    table.add({to_text(Bytes{size * group.count}), with_thousands(group.count), to_text(Bytes{size}),
               milliseconds(group.first - start) + " and " + milliseconds(group.last - start)});
  }
  std::string text = "\nWhat was allocated at its peak\n";
  text += fmt::format("  {} from before the trace, {} in {} blocks of the trace\n", to_gib_text(peak.earlier),
                      to_gib_text(peak.allocated - peak.earlier),
                      with_thousands(static_cast<int64_t>(peak.blocks.size())));
  return text + table.to_text(2);
}

std::string failures_text(const ProfiledDevice& d, const std::optional<Nanoseconds>& start) {
  std::string text;
  for (const OutOfMemoryInstant& failure : d.out_of_memory)
    text += fmt::format("  out of memory{}: {} was asked for, {} allocated, {} reserved\n",
                        start ? " " + milliseconds(failure.time - *start) + " into the trace" : "",
                        to_text(failure.requested), to_gib_text(failure.allocated),
                        to_gib_text(failure.reserved));
  return text;
}

// What the CPU's allocator hands out comes and goes with each op: one line.
std::string host_text(const std::string& file, const ProfiledDevice& d) {
  const auto most = std::ranges::max_element(d.instants, {}, &MemoryInstant::allocated);
  return fmt::format("{}: host memory, {} memory instants, at most {} allocated\n", file,
                     with_thousands(static_cast<int64_t>(d.instants.size())),
                     most == d.instants.end() ? "0 B" : to_text(most->allocated));
}

std::string device_text(const std::string& file, const ProfiledDevice& d, size_t most_blocks) {
  std::string text = fmt::format("{}: {}, {} memory instants", file, device_name(d),
                                 with_thousands(static_cast<int64_t>(d.instants.size())));
  if (d.instants.empty()) return text + "\n" + failures_text(d, std::nullopt);
  const Nanoseconds start = d.instants.front().time;
  text += fmt::format(" over {}\n", milliseconds(d.instants.back().time - start));
  const ProfiledPeak peak = peak_of(d);
  return text + peaks_text(d, peak) + failures_text(d, start) + curve_text(d) +
         blocks_text(d, peak, most_blocks);
}

Json device_json(const ProfiledDevice& d) {
  Json failures = Json::array();
  for (const OutOfMemoryInstant& failure : d.out_of_memory)
    failures.push_back({{"time_ns", failure.time.value},
                        {"requested_bytes", failure.requested.value},
                        {"allocated_bytes", failure.allocated.value},
                        {"reserved_bytes", failure.reserved.value}});
  Json json = {{"tier", d.is_host ? "host" : "gpu"},
               {"device", d.device},
               {"name", d.name},
               {"capacity_bytes", d.capacity ? Json(d.capacity->value) : Json()},
               {"instants", d.instants.size()},
               {"out_of_memory", std::move(failures)},
               {"peak", Json()}};
  if (d.instants.empty()) return json;
  const ProfiledPeak peak = peak_of(d);
  json["peak"] = {{"allocated_bytes", peak.allocated.value},
                  {"allocated_time_ns", d.instants[peak.allocated_at].time.value},
                  {"reserved_bytes", peak.reserved.value},
                  {"reserved_time_ns", d.instants[peak.reserved_at].time.value},
                  {"earlier_bytes", peak.earlier.value},
                  {"blocks", peak.blocks.size()}};
  return json;
}

}  // namespace

ProfiledPeak peak_of(const ProfiledDevice& d) {
  ProfiledPeak peak;
  for (size_t i = 0; i < d.instants.size(); ++i) {
    const MemoryInstant& instant = d.instants[i];
    if (i == 0 || instant.allocated > peak.allocated)
      peak.allocated = instant.allocated, peak.allocated_at = i;
    if (i == 0 || instant.reserved > peak.reserved) peak.reserved = instant.reserved, peak.reserved_at = i;
  }
  std::unordered_map<uint64_t, size_t> live;  // instant by address
  Bytes in_blocks;
  for (size_t i = 0; i < d.instants.size(); ++i) {
    const MemoryInstant& instant = d.instants[i];
    if (instant.bytes.value > 0)
      live[instant.address] = i;
    else if (live.erase(instant.address) == 0)
      ++peak.unknown_frees;
    if (i != peak.allocated_at) continue;
    for (const auto& [address, born] : live) peak.blocks.push_back(d.instants[born]);
  }
  for (const MemoryInstant& block : peak.blocks) in_blocks += block.bytes;
  peak.earlier = std::max(peak.allocated - in_blocks, Bytes{});
  std::ranges::sort(peak.blocks, [](const MemoryInstant& a, const MemoryInstant& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.address < b.address;
  });
  return peak;
}

std::string profiled_memory_page(const std::string& file, const ProfiledMemory& memory,
                                 const std::vector<std::string>& notes,
                                 const ProfiledMemoryPageOptions& options) {
  std::string text;
  for (const ProfiledDevice& device : memory.devices) {
    if (!text.empty()) text += "\n";
    text += device.is_host ? host_text(file, device) : device_text(file, device, options.most_blocks);
  }
  if (!memory.imperfections.empty() || !notes.empty()) text += "\nNotes\n";
  for (const TraceImperfection& i : memory.imperfections) text += fmt::format("  {} {}\n", i.count, i.what);
  for (const std::string& note : notes) text += "  " + note + "\n";
  return text;
}

std::string profiled_memory_json(const std::string& file, const ProfiledMemory& memory,
                                 const std::vector<std::string>& notes) {
  Json devices = Json::array(), imperfections = Json::array();
  for (const ProfiledDevice& device : memory.devices) devices.push_back(device_json(device));
  for (const TraceImperfection& i : memory.imperfections)
    imperfections.push_back({{"what", i.what}, {"count", i.count}});
  const Json root = {{"schema", "plimsoll.profiled_memory/1"},
                     {"file", file},
                     {"devices", std::move(devices)},
                     {"imperfections", std::move(imperfections)},
                     {"notes", notes}};
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
