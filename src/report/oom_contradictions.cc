#include "report/oom_contradictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "report/oom_account.h"

namespace plimsoll {
namespace {

using Figure = OomFigure;

// A sum of figures, and by how much their rounding may have raised it.
struct Sum {
  Bytes bytes, off;

  void add(const std::optional<Bytes>& figure) {
    if (!figure) return;
    bytes += *figure;
    off += rounding_of(*figure);
  }
  bool exceeds(Bytes limit) const { return bytes > limit + off + rounding_of(limit); }
};

Sum sum_of(std::initializer_list<std::optional<Bytes>> figures) {
  Sum sum;
  for (const std::optional<Bytes>& figure : figures) sum.add(figure);
  return sum;
}

constexpr uint32_t set_of(std::initializer_list<Figure> figures) {
  uint32_t set = 0;
  for (const Figure figure : figures) set |= uint32_t{1} << static_cast<uint32_t>(figure);
  return set;
}

struct Conclusion {
  std::string_view text;
  uint32_t figures;                   // it rests on each of these
  std::optional<Figure> needed = {};  // without which a message has no such conclusion
};
constexpr std::array<Conclusion, 8> kConclusions = {
    {{"whether the device had room for the request", set_of({Figure::kFree, Figure::kCapacity})},
     {"whether fragmentation decided", set_of({Figure::kFree, Figure::kCapacity, Figure::kCached})},
     {"what the job's own tensors held", set_of({Figure::kAllocated})},
     {"how much less had to be held",
      set_of({Figure::kFree, Figure::kCapacity, Figure::kAllocated, Figure::kCached})},
     {"what this process holds beside PyTorch's allocator",
      set_of({Figure::kInUse, Figure::kAllocated, Figure::kCached}), Figure::kInUse},
     {"what other processes hold", set_of({Figure::kProcesses})},
     {"whether a limit was reached", set_of({Figure::kAllowed, Figure::kAllocated, Figure::kCached}),
      Figure::kAllowed},
     {"what private pools hold", set_of({Figure::kPrivatePools})}}};

// What of the message's conclusions falls with these figures.
std::string falling_with(const std::vector<Figure>& figures, const OutOfMemoryMessage& m) {
  std::vector<std::string_view> texts;
  for (const Conclusion& conclusion : kConclusions) {
    const bool is_drawn = (conclusion.needed != Figure::kAllowed || m.allowed) &&
                          (conclusion.needed != Figure::kInUse || m.in_use);
    const bool falls = std::ranges::any_of(
        figures, [&](Figure figure) { return (conclusion.figures & set_of({figure})) != 0; });
    if (is_drawn && falls) texts.push_back(conclusion.text);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

class Contradictions {
 public:
  explicit Contradictions(const OutOfMemoryMessage& message) : m_(message) {}

  std::vector<OomContradiction> all() {
    compare_with_device();
    compare_within_allocator();
    compare_with_process();
    compare_all_with_device();
    return std::move(found_);
  }

 private:
  bool is_good(std::initializer_list<Figure> figures) const {
    return std::ranges::none_of(figures, [&](Figure figure) { return contradicted_.contains(figure); });
  }
  void add(std::vector<Figure> figures, std::string text) {
    contradicted_.insert(figures.begin(), figures.end());
    std::string falling = falling_with(figures, m_);
    found_.push_back(
        {.text = std::move(text), .figures = std::move(figures), .not_concluded = std::move(falling)});
  }
  std::vector<Figure> held() const {
    return m_.reserved_unallocated ? std::vector{Figure::kAllocated, Figure::kCached}
                                   : std::vector{Figure::kAllocated};
  }
  std::vector<Figure> held_and(std::initializer_list<Figure> others) const {
    std::vector<Figure> figures = held();
    figures.insert(figures.end(), others.begin(), others.end());
    return figures;
  }

  void compare_with_device() {
    if (!m_.capacity) return;
    const std::string device = to_text(*m_.capacity);
    if (m_.free && sum_of({m_.free}).exceeds(*m_.capacity))
      add({Figure::kFree, Figure::kCapacity},
          fmt::format("{} free of a device of {}", to_text(*m_.free), device));
    if (m_.allowed && sum_of({m_.allowed}).exceeds(*m_.capacity))
      add({Figure::kAllowed, Figure::kCapacity},
          fmt::format("{} allowed to this process on a device of {}", to_text(*m_.allowed), device));
    for (const OutOfMemoryMessage::Process& process : m_.processes)
      if (sum_of({process.in_use}).exceeds(*m_.capacity))
        add({Figure::kProcesses, Figure::kCapacity},
            fmt::format("process {} with {} on a device of {}", process.id, to_text(process.in_use), device));
  }

  void compare_within_allocator() {
    if (!m_.allocated) return;
    if (m_.reserved && sum_of({m_.allocated}).exceeds(*m_.reserved))
      add({Figure::kAllocated, Figure::kCached},
          fmt::format("{} allocated of {} reserved in total", to_text(*m_.allocated), to_text(*m_.reserved)));
    else if (m_.reserved_unallocated && m_.reserved_unallocated->value < 0)
      add({Figure::kAllocated, Figure::kCached},
          fmt::format("{} allocated, and {} less reserved", to_text(*m_.allocated),
                      to_text(Bytes{} - *m_.reserved_unallocated)));
    if (m_.private_pools && sum_of({m_.private_pools}).exceeds(*m_.allocated))
      add({Figure::kPrivatePools, Figure::kAllocated},
          fmt::format("{} in private pools of {} allocated", to_text(*m_.private_pools),
                      to_text(*m_.allocated)));
  }

  // Of MPS the process's use is the sum of what is listed.
  void compare_with_process() {
    if (!m_.in_use || !m_.allocated || m_.wording == OomWording::kMps) return;
    const Sum of_pytorch = sum_of({m_.allocated, m_.reserved_unallocated});
    if (is_good({Figure::kAllocated, Figure::kCached, Figure::kInUse}) && of_pytorch.exceeds(*m_.in_use))
      add(held_and({Figure::kInUse}), fmt::format("PyTorch with {} in a process that uses {}",
                                                  to_text(of_pytorch.bytes), to_text(*m_.in_use)));
  }

  void compare_all_with_device() {
    if (!m_.capacity || !m_.free || !is_good({Figure::kCapacity, Figure::kFree})) return;
    const Sum of_pytorch = sum_of({m_.allocated, m_.reserved_unallocated});
    if (m_.allocated && is_good({Figure::kAllocated, Figure::kCached}) && !of_pytorch.exceeds(*m_.capacity) &&
        sum_of({m_.allocated, m_.reserved_unallocated, m_.free}).exceeds(*m_.capacity))
      return add(held_and({Figure::kFree, Figure::kCapacity}),
                 fmt::format("{} that PyTorch holds and {} free of a device of {}", to_text(of_pytorch.bytes),
                             to_text(*m_.free), to_text(*m_.capacity)));
    compare_processes_with_device();
  }
  void compare_processes_with_device() {
    Sum in_use;
    std::vector<Figure> figures = {Figure::kFree, Figure::kCapacity};
    if (m_.in_use && is_good({Figure::kInUse})) {
      in_use.add(m_.in_use);
      figures.push_back(Figure::kInUse);
    }
    if (!m_.processes.empty() && is_good({Figure::kProcesses})) {
      for (const OutOfMemoryMessage::Process& process : m_.processes) in_use.add(process.in_use);
      figures.push_back(Figure::kProcesses);
    }
    const Bytes used = in_use.bytes;
    in_use.add(m_.free);
    if (in_use.exceeds(*m_.capacity))
      add(std::move(figures), fmt::format("{} that processes use and {} free of a device of {}",
                                          to_text(used), to_text(*m_.free), to_text(*m_.capacity)));
  }

  const OutOfMemoryMessage& m_;
  std::vector<OomContradiction> found_;
  std::set<Figure> contradicted_;
};

}  // namespace

std::string_view name_of(OomFigure figure) {
  constexpr std::array<std::string_view, 8> kNames = {"capacity_bytes",
                                                      "free_bytes",
                                                      "in_use_bytes",
                                                      "allowed_bytes",
                                                      "allocated_bytes",
                                                      "private_pool_bytes",
                                                      "reserved_unallocated_bytes",
                                                      "other_processes"};
  return kNames[static_cast<size_t>(figure)];
}

std::string OomContradiction::note() const {
  return fmt::format("contradictory: {}; so not concluded: {}", text, not_concluded);
}

std::vector<OomContradiction> contradictions_of(const OutOfMemoryMessage& message) {
  return Contradictions(message).all();
}

OutOfMemoryMessage without_contradicted(const OutOfMemoryMessage& message,
                                        const std::vector<OomContradiction>& contradictions) {
  OutOfMemoryMessage rest = message;
  for (const OomContradiction& contradiction : contradictions)
    for (const Figure figure : contradiction.figures) {
      if (figure == Figure::kCapacity) rest.capacity.reset();
      if (figure == Figure::kFree) rest.free.reset();
      if (figure == Figure::kInUse) rest.in_use.reset();
      if (figure == Figure::kAllowed) rest.allowed.reset();
      if (figure == Figure::kAllocated) rest.allocated.reset();
      if (figure == Figure::kPrivatePools) rest.private_pools.reset();
      if (figure == Figure::kCached) rest.reserved_unallocated.reset();
      if (figure == Figure::kProcesses) rest.processes.clear();
    }
  return rest;
}

}  // namespace plimsoll
