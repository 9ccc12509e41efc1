#include "importers/memory_stats/memory_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "importers/hf_config/json_tree.h"

namespace plimsoll {
namespace {

constexpr std::array<std::string_view, 9> kQuantities = {
    "allocation",      "segment",        "active",       "inactive_split",
    "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes",
    "requested_bytes"};
constexpr std::array<std::string_view, 3> kPools = {"all", "small_pool", "large_pool"};
constexpr std::array<std::string_view, 4> kMetrics = {"current", "peak", "allocated", "freed"};
constexpr std::array<std::string_view, 2> kOversize = {"oversize_allocations", "oversize_segments"};
constexpr std::array<std::string_view, 7> kPlain = {
    "num_alloc_retries", "num_ooms",           "num_sync_all_streams", "num_device_alloc",
    "num_device_free",   "num_oom_rejections", "max_split_size"};
constexpr std::array<std::string_view, 8> kHostQuantities = {
    "allocations", "allocated_bytes", "active_requests", "active_bytes",
    "allocation",  "allocated",       "segment",         "reserved_bytes"};
constexpr std::array<std::string_view, 2> kHostPlain = {"num_host_alloc", "num_host_free"};
constexpr std::string_view kPrivatePools = "reserved_bytes_by_private_pools";
constexpr std::string_view kUnlimited = "max_split_size";  // -1 when there is none

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t dot = name.find('.');
    parts.push_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

bool is_of_host(std::string_view name) {
  const std::vector<std::string_view> p = parts_of(name);
  if (p.size() == 1) return is_one_of(kHostPlain, p[0]);
  return p.size() == 2 && is_one_of(kHostQuantities, p[0]) && is_one_of(kMetrics, p[1]);
}
// Known, and not read.
bool is_left_out(std::string_view name) {
  return name.starts_with("host_alloc_time") || name.starts_with("host_free_time") ||
         name.starts_with("bucket_");
}

bool is_known(std::string_view name) {
  const std::vector<std::string_view> p = parts_of(name);
  switch (p.size()) {
    case 1:
      return is_one_of(kPlain, p[0]);
    case 2:
      return is_one_of(kOversize, p[0]) && is_one_of(kMetrics, p[1]);
    case 3:
      return is_one_of(kQuantities, p[0]) && is_one_of(kPools, p[1]) && is_one_of(kMetrics, p[2]);
    case 4:
      return p[0] == kPrivatePools && is_one_of(kPools, p[2]) && is_one_of(kMetrics, p[3]);
    default:
      return false;
  }
}

class Flattener {
 public:
  explicit Flattener(const std::string& file) : file_(file) {}

  Result<void> add(const std::string& prefix, const ConfigValue::Object& object) {
    for (const ConfigMember& member : object) {
      const std::string name = prefix.empty() ? member.key : prefix + "." + member.key;
      if (const auto* const inner = member.value.as<ConfigValue::Object>())
        PLIMSOLL_CHECK(add(name, *inner));
      else if (is_known(name) || is_of_host(name))
        PLIMSOLL_CHECK(add_counter(name, member));
      else if (!is_left_out(name))
        add_unknown(name);
    }
    return {};
  }
  RecordedMemoryStats finish() {
    stats_.is_host = std::ranges::any_of(stats_.counters, [](const auto& c) { return is_of_host(c.first); });
    if (stats_.is_host) stats_.source = "torch.cuda.host_memory_stats()";
    if (unknown_ > kMostUnknownKeys)
      stats_.notes.push_back(fmt::format("{} more keys are not known", unknown_ - kMostUnknownKeys));
    return std::move(stats_);
  }

 private:
  Result<void> add_counter(const std::string& name, const ConfigMember& member) {
    const int64_t* const number = member.value.as<int64_t>();
    const auto refuse = [&](std::string message, std::string expected) {
      return fail({.position = {.file = file_, .key = name, .line = member.line, .column = member.column},
                   .message = std::move(message),
                   .expected = std::move(expected)});
    };
    if (!number) return refuse("is no integer", "a counter of torch.cuda.memory_stats()");
    const int64_t least = name == kUnlimited ? -1 : 0;
    if (*number < least || *number >= kMaxQuantity)
      return refuse(fmt::format("is {}", *number), fmt::format("{} or more", least));
    if (!stats_.counters.emplace(name, *number).second)
      return refuse("is given twice, flat and nested", "each counter once");
    return {};
  }
  void add_unknown(const std::string& name) {
    if (++unknown_ <= kMostUnknownKeys)
      stats_.notes.push_back(fmt::format("key \"{}\" is not known", shown_text(name)));
  }

  const std::string& file_;
  RecordedMemoryStats stats_;
  size_t unknown_ = 0;
};

constexpr std::string_view kOrderedDict = "OrderedDict(";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// As Python prints a dict: "{'a': 1}", "OrderedDict({'a': 1})" or, before 3.12, "OrderedDict([('a', 1)])".
bool is_python_dict(std::string_view text) {
  return text.starts_with(kOrderedDict) || text.starts_with("{'");
}

std::string json_of_python(std::string_view dict) {
  std::string text(dict);
  if (dict.starts_with(kOrderedDict))
    text = text.substr(kOrderedDict.size(), text.rfind(')') - kOrderedDict.size());
  replace_all(text, "\n", " ");
  const bool is_of_pairs = text.starts_with("[(");
  replace_all(text, "'", "\"");
  if (!is_of_pairs) return text;
  replace_all(text, "\", ", "\": ");
  replace_all(text, "), (", ", ");
  replace_all(text, "[(", "{");
  replace_all(text, ")]", "}");
  return text;
}

}  // namespace

bool sniff_memory_stats(std::string_view first_bytes) {
  const std::string_view text = trimmed(first_bytes);
  const bool is_python = is_python_dict(text);
  if (!is_python && !text.starts_with('{')) return false;
  const std::string quote = is_python ? "'" : "\"";
  return text.find(quote + "allocated_bytes") != std::string_view::npos ||
         text.find(quote + "reserved_bytes") != std::string_view::npos;
}

Result<RecordedMemoryStats> read_memory_stats(std::string_view text, const std::string& file) {
  const bool is_python = is_python_dict(trimmed(text));
  const std::string json = is_python ? json_of_python(trimmed(text)) : std::string();
  PLIMSOLL_TRY(object, parse_json_object(is_python ? std::string_view(json) : text, file,
                                         "the JSON of torch.cuda.memory_stats()"));
  Flattener flattener(file);
  PLIMSOLL_CHECK(flattener.add("", object));
  RecordedMemoryStats stats = flattener.finish();
  if (stats.counters.empty())
    return fail({.position = {.file = file},
                 .message = "holds no counter of torch.cuda.memory_stats()",
                 .expected = "keys such as \"allocated_bytes.all.peak\"",
                 .hint = "write it with json.dump(torch.cuda.memory_stats(), file)"});
  return stats;
}

}  // namespace plimsoll
