#include "importers/kineto_trace/kineto_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "importers/kineto_trace/json_scanner.h"

namespace plimsoll {
namespace {

constexpr uint64_t kProgressEvery = uint64_t{8} << 20;  // bytes
constexpr int64_t kMostDevices = 4096;

std::optional<int64_t> integer_of(std::string_view text) {
  int64_t integer = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, integer);
  if (error == std::errc() && end == last)
    return integer > -kMaxQuantity && integer < kMaxQuantity ? std::optional(integer) : std::nullopt;
  double number = 0;
  if (std::from_chars(text.data(), last, number).ec != std::errc()) return std::nullopt;
  const bool is_whole = std::abs(number) < static_cast<double>(kMaxQuantity) && number == std::trunc(number);
  return is_whole ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

// Microseconds with a fraction, without the rounding that a double would bring to times since 1970.
std::optional<Nanoseconds> time_of(std::string_view text) {
  const size_t dot = text.find('.');
  const std::optional<int64_t> whole = integer_of(text.substr(0, dot));
  if (!whole || std::abs(*whole) >= kMaxQuantity / 1000) return std::nullopt;
  int64_t fraction = 0;
  for (size_t i = 1; dot != std::string_view::npos && i <= 3; ++i) {
    const char c = dot + i < text.size() ? text[dot + i] : '0';
    if (c < '0' || c > '9') return std::nullopt;
    fraction = 10 * fraction + (c - '0');
  }
  return Nanoseconds{*whole * 1000 + fraction};
}

struct Event {
  std::string name;
  std::optional<Nanoseconds> time;
  std::optional<uint64_t> address;
  std::optional<int64_t> bytes, allocated, reserved, device_type, device;

  bool is_out_of_memory() const { return name == "[OutOfMemory]"; }
  bool is_of_memory() const { return name == "[memory]" || is_out_of_memory(); }
};

class KinetoReader {
 public:
  KinetoReader(ByteSource& source, std::string file, std::function<void(uint64_t)> on_progress)
      : source_(source), json_(source), file_(std::move(file)), on_progress_(std::move(on_progress)) {}

  Result<ProfiledMemory> read() {
    if (json_.peek() == '[')
      PLIMSOLL_CHECK(read_events());
    else
      PLIMSOLL_CHECK(read_root());
    source_.ensure(1);  // to the end of the gzip stream, where its checksum is
    if (source_.error()) return tl::unexpected(*source_.error());
    return finish();
  }

 private:
  tl::unexpected<Error> fail_here(std::string message, std::string expected, std::string hint = {}) {
    if (source_.error()) return tl::unexpected(*source_.error());
    return fail({.position = {.file = file_, .byte = json_.offset()},
                 .message = std::move(message),
                 .expected = std::move(expected),
                 .hint = std::move(hint)});
  }
  tl::unexpected<Error> fail_at_syntax() {
    if (json_.is_too_deep())
      return fail_here(
          fmt::format("a value has more than {} brackets within each other", JsonScanner::kMostDepth),
          "a trace of the profiler, whose values lie a few brackets deep",
          "write it with export_chrome_trace()");
    if (json_.at_end())
      return fail_here("the JSON ends early", "its closing bracket",
                       "was the profiler stopped before it had written all?");
    return fail_here("is no JSON", "an object with \"traceEvents\"");
  }

  Result<void> read_root() {
    std::string key;
    for (bool more = json_.enter('{'); more; more = json_.next('}')) {
      if (!json_.key(key)) return fail_at_syntax();
      if (key == "traceEvents") {
        PLIMSOLL_CHECK(read_events());
      } else if (key == "deviceProperties") {
        if (!read_device_properties()) return fail_at_syntax();
      } else if (!json_.skip_value()) {
        return fail_at_syntax();
      }
    }
    if (!json_.is_closed()) return fail_at_syntax();
    return {};
  }

  bool read_device_properties() {
    bool more = json_.enter('[');
    for (; more; more = json_.next(']'))
      if (!read_device_property()) return false;
    return json_.is_closed();
  }

  bool read_device_property() {
    std::string key, text;
    Properties properties;
    std::optional<int64_t> id;
    for (bool more = json_.enter('{'); more; more = json_.next('}')) {
      if (!json_.key(key)) return false;
      if (key == "name") {
        if (!json_.string(properties.name)) return false;
      } else if (key == "id" || key == "totalGlobalMem") {
        if (!json_.number(text)) return false;
        const std::optional<int64_t> number = integer_of(text);
        if (key == "id") id = number;
        if (key != "id" && number && *number > 0) properties.capacity = Bytes{*number};
      } else if (!json_.skip_value()) {
        return false;
      }
    }
    if (id && properties_.size() < kMostDevices) properties_[*id] = std::move(properties);
    return json_.is_closed();
  }

  Result<void> read_events() {
    uint64_t next_progress = kProgressEvery;
    bool more = json_.enter('[');
    while (more) {
      Event event;
      if (read_event(event)) {
        take(std::move(event));
        more = json_.next(']');
        if (!more && !json_.is_closed()) more = pass_over_broken();
      } else {
        more = pass_over_broken();
      }
      if (on_progress_ && json_.offset() >= next_progress) {
        on_progress_(source_.consumed_of_file());
        next_progress = json_.offset() + kProgressEvery;
      }
    }
    if (json_.is_too_deep() || !json_.is_closed()) return fail_at_syntax();
    return {};
  }

  bool pass_over_broken() {
    if (json_.is_too_deep() || json_.at_end() || !json_.skip_to_object("ph")) return false;
    ++imperfections_["events that are no JSON"];
    return true;
  }

  bool read_event(Event& event) {
    std::string key, text;
    for (bool more = json_.enter('{'); more; more = json_.next('}')) {
      if (!json_.key(key)) return false;
      if (key == "name" && json_.peek() == '"') {
        if (!json_.string(event.name)) return false;
      } else if (key == "ts" && json_.peek() != '"') {
        if (!json_.number(text)) return false;
        event.time = time_of(text);
      } else if (key == "args" && json_.peek() == '{' && (event.name.empty() || event.is_of_memory())) {
        if (!read_arguments(event)) return false;
      } else if (!json_.skip_value()) {
        return false;
      }
    }
    return json_.is_closed();
  }

  bool read_arguments(Event& event) {
    std::string key, text;
    for (bool more = json_.enter('{'); more; more = json_.next('}')) {
      if (!json_.key(key)) return false;
      std::optional<int64_t>* const field = key == "Bytes"             ? &event.bytes
                                            : key == "Total Allocated" ? &event.allocated
                                            : key == "Total Reserved"  ? &event.reserved
                                            : key == "Device Type"     ? &event.device_type
                                            : key == "Device Id"       ? &event.device
                                                                       : nullptr;
      if ((!field && key != "Addr") || json_.peek() == '"') {
        if (!json_.skip_value()) return false;
        continue;
      }
      if (!json_.number(text)) return false;
      if (field)
        *field = integer_of(text);
      else if (uint64_t address = 0;
               std::from_chars(text.data(), text.data() + text.size(), address).ec == std::errc())
        event.address = address;
    }
    return json_.is_closed();
  }

  void take(Event event) {
    if (!event.is_of_memory()) return;
    for (std::optional<int64_t>* const total : {&event.allocated, &event.reserved})
      if (*total && **total < 0) {
        ++imperfections_["memory instants with a total below zero"];
        *total = 0;
      }
    const bool is_out_of_memory = event.is_out_of_memory();
    if (!event.time || !event.bytes || (!is_out_of_memory && !event.address)) {
      ++imperfections_["memory instants without a time, an address or a size"];
      return;
    }
    const bool is_host = event.device_type == 0;
    const int64_t number = is_host ? 0 : event.device.value_or(0);
    if (number < 0 || number >= kMostDevices) {
      ++imperfections_["memory instants of a device without a number"];
      return;
    }
    ProfiledDevice& device = devices_[{is_host, number}];
    if (is_out_of_memory) {
      device.out_of_memory.push_back({.time = *event.time,
                                      .requested = Bytes{*event.bytes},
                                      .allocated = Bytes{event.allocated.value_or(0)},
                                      .reserved = Bytes{event.reserved.value_or(0)}});
      return;
    }
    if (!event.allocated || !event.reserved)
      ++imperfections_["memory instants without totals (PyTorch before 1.10)"];
    device.instants.push_back({.time = *event.time,
                               .address = *event.address,
                               .bytes = Bytes{*event.bytes},
                               .allocated = Bytes{event.allocated.value_or(0)},
                               .reserved = Bytes{event.reserved.value_or(0)}});
  }

  Result<ProfiledMemory> finish() {
    if (devices_.empty())
      return fail_here("holds no memory instants", "events named \"[memory]\"",
                       "record with torch.profiler.profile(profile_memory=True)");
    ProfiledMemory memory;
    for (auto& [key, device] : devices_) {
      device.is_host = key.first;
      device.device = static_cast<int>(key.second);
      const auto known = key.first ? properties_.end() : properties_.find(key.second);
      if (known != properties_.end()) {
        device.name = known->second.name;
        device.capacity = known->second.capacity;
      }
      if (!std::ranges::is_sorted(device.instants, {},
                                  &MemoryInstant::time))  // sorting takes half more memory
        std::ranges::stable_sort(device.instants, {}, &MemoryInstant::time);
      std::ranges::stable_sort(device.out_of_memory, {}, &OutOfMemoryInstant::time);
      memory.devices.push_back(std::move(device));
    }
    for (const auto& [what, count] : imperfections_)
      memory.imperfections.push_back({.what = what, .count = count});
    return memory;
  }

  struct Properties {
    std::string name;
    std::optional<Bytes> capacity;
  };

  ByteSource& source_;
  JsonScanner json_;
  std::string file_;
  std::function<void(uint64_t)> on_progress_;
  std::map<int64_t, Properties> properties_;                    // by device
  std::map<std::pair<bool, int64_t>, ProfiledDevice> devices_;  // the host last
  std::map<std::string, int64_t> imperfections_;
};

}  // namespace

bool sniff_kineto_trace(std::string_view first_bytes) {
  const size_t first = first_bytes.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  const auto has = [&](std::string_view words) { return first_bytes.find(words) != std::string_view::npos; };
  return (first_bytes[first] == '{' && (has("\"traceEvents\"") || has("\"schemaVersion\""))) ||
         (first_bytes[first] == '[' && has("\"ph\""));
}

Result<ProfiledMemory> read_kineto_trace(const std::filesystem::path& path,
                                         const std::function<void(uint64_t)>& on_progress) {
  PLIMSOLL_TRY(source, ByteSource::open(path));
  return read_kineto_trace(*source, path.string(), on_progress);
}

Result<ProfiledMemory> read_kineto_trace(ByteSource& source, const std::string& name,
                                         const std::function<void(uint64_t)>& on_progress) {
  return KinetoReader(source, name, on_progress).read();
}

Result<ProfiledMemory> read_kineto_trace_bytes(std::string_view bytes, const std::string& name) {
  const std::unique_ptr<ByteSource> source = ByteSource::of(bytes);
  return KinetoReader(*source, name, {}).read();
}

}  // namespace plimsoll
