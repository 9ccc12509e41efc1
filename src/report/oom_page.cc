#include "report/oom_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text_table.h"

namespace plimsoll {
namespace {

constexpr Bytes kUsualContext = kGiB;  // of CUDA with the libraries that most jobs load, rounded up

Bytes others(const OutOfMemoryMessage& m) {
  Bytes total;
  for (const OutOfMemoryMessage::Process& process : m.other_processes) total += process.in_use;
  return total;
}

// Of the device, in use by none that the message names.
std::optional<Bytes> unnamed(const OutOfMemoryMessage& m) {
  if (!m.capacity || !m.free || !m.allocated || !m.reserved_unallocated) return std::nullopt;
  const Bytes ours = m.in_use.value_or(*m.allocated + *m.reserved_unallocated);
  return std::max(*m.capacity - *m.free - ours - others(m), Bytes{});
}

void say_fragmentation(const OutOfMemoryMessage& m, std::vector<std::string>& all) {
  if (!m.reserved_unallocated || !m.allocated) return;
  const Bytes stranded = *m.reserved_unallocated;
  if (stranded >= m.tried)
    all.push_back(fmt::format(
        "Fragmentation: {} lay cached in pieces that were each too small for {}. With "
        "PYTORCH_ALLOC_CONF=expandable_segments:True the request would most likely have been served.",
        to_text(stranded), to_text(m.tried)));
  else if (m.free && stranded + *m.free >= m.tried)
    all.push_back(
        fmt::format("Fragmentation: {} cached and {} free together would have been enough for {}. Try "
                    "PYTORCH_ALLOC_CONF=expandable_segments:True.",
                    to_text(stranded), to_text(*m.free), to_text(m.tried)));
  else
    all.push_back(
        fmt::format("Fragmentation isn't the cause: only {} was cached and unused.", to_text(stranded)));
}

void say_others(const OutOfMemoryMessage& m, std::vector<std::string>& all) {
  if (!m.other_processes.empty()) {
    const bool may_be_own = !m.in_use && m.other_processes.size() == 1;
    all.push_back(
        may_be_own
            ? fmt::format("Process {} holds {}: another one, or this one as it is numbered outside of its "
                          "container.",
                          m.other_processes[0].id, to_text(m.other_processes[0].in_use))
            : fmt::format(
                  "Other processes hold {} of this GPU; ended, or elsewhere, they leave it to the job.",
                  to_text(others(m))));
  }
  const std::optional<Bytes> beside = m.beside_pytorch();
  if (beside && *beside > kUsualContext)
    all.push_back(fmt::format(
        "{} is this process's but not of PyTorch's allocator: the CUDA context and libraries take up to "
        "about {}, NCCL's buffers, another framework or CUDA code of one's own the rest.",
        to_text(*beside), to_text(kUsualContext)));
}

void say_limit(const OutOfMemoryMessage& m, std::vector<std::string>& all) {
  if (m.capacity && m.tried > *m.capacity)
    all.push_back(
        fmt::format("The request alone, {}, is larger than the device, {}: no cache or setting makes it fit.",
                    to_text(m.tried), to_text(*m.capacity)));
  if (m.allowed)
    all.push_back(fmt::format("The process may use {} (torch.cuda.set_per_process_memory_fraction()).",
                              to_text(*m.allowed)));
  else if (m.free && *m.free >= m.tried)
    all.push_back(
        fmt::format("{} was free when the message was written, enough for {}: something gave memory back in "
                    "between, or a limit "
                    "outside of PyTorch holds (MIG, a virtual GPU).",
                    to_text(*m.free), to_text(m.tried)));
}

std::string title(const std::string& file, const OutOfMemoryMessage& m) {
  std::string text = fmt::format("{}: {} out of memory", file, m.kind.empty() ? "GPU" : m.kind);
  if (m.device) text += fmt::format(" on GPU {}", *m.device);
  text += fmt::format(": {} was asked for", to_text(m.tried));
  if (m.times > 1) text += fmt::format(" ({} times the same message)", with_thousands(m.times));
  return text + "\n";
}

std::string table_of(const OutOfMemoryMessage& m) {
  TextTable table({"", ""}, {Align::kLeft, Align::kRight});
  const auto row = [&](std::string what, const std::optional<Bytes>& size) {
    if (size) table.add({std::move(what), to_text(*size)});
  };
  row("allocated by tensors", m.allocated);
  row("  of it in private pools (CUDA graphs, MemPool)", m.private_pools);
  row("cached, not allocated", m.reserved_unallocated);
  row("of this process, beside PyTorch's allocator", m.beside_pytorch());
  for (const OutOfMemoryMessage::Process& process : m.other_processes)
    row(fmt::format("process {}", process.id), process.in_use);
  const std::optional<Bytes> rest = unnamed(m);
  if (rest && (!m.in_use || *rest > kMiB * 64))
    row(m.in_use ? "not named by the message" : "context, libraries, other processes", rest);
  row("free", m.free);
  table.add_rule();
  row("capacity of the device", m.capacity);
  row("allowed to this process", m.allowed);
  return table.to_text(2);
}

nlohmann::ordered_json json_of(const std::optional<Bytes>& size) {
  return size ? nlohmann::ordered_json(size->value) : nlohmann::ordered_json();
}

}  // namespace

std::vector<std::string> findings_of(const OutOfMemoryMessage& m) {
  std::vector<std::string> all;
  say_limit(m, all);
  say_fragmentation(m, all);
  say_others(m, all);
  if (m.free && m.tried > *m.free)
    all.push_back(fmt::format(
        "At this moment at least {} less had to be held, and later ones may need more: `plimsoll estimate` "
        "of the job says what holds the memory and what would help.",
        to_text(m.tried - *m.free)));
  return all;
}

std::string oom_page(const std::string& file, const std::vector<OutOfMemoryMessage>& messages,
                     const std::vector<std::string>& notes) {
  std::string text;
  for (const OutOfMemoryMessage& m : messages) {
    if (!text.empty()) text += "\n";
    text += title(file, m) + table_of(m) + "\nWhat the numbers say\n";
    for (const std::string& finding : findings_of(m)) text += "  - " + finding + "\n";
  }
  text += "\nNotes\n  the message rounds: sizes in GiB may be 5 MiB more or less\n";
  for (const std::string& note : notes) text += "  " + note + "\n";
  return text;
}

std::string oom_json(const std::string& file, const std::vector<OutOfMemoryMessage>& messages,
                     const std::vector<std::string>& notes) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const OutOfMemoryMessage& m : messages) {
    nlohmann::ordered_json processes = nlohmann::ordered_json::array();
    for (const OutOfMemoryMessage::Process& process : m.other_processes)
      processes.push_back({{"id", process.id}, {"bytes", process.in_use.value}});
    all.push_back({{"kind", m.kind},
                   {"device", m.device ? nlohmann::ordered_json(*m.device) : nlohmann::ordered_json()},
                   {"times", m.times},
                   {"tried_bytes", m.tried.value},
                   {"capacity_bytes", json_of(m.capacity)},
                   {"free_bytes", json_of(m.free)},
                   {"in_use_bytes", json_of(m.in_use)},
                   {"allowed_bytes", json_of(m.allowed)},
                   {"allocated_bytes", json_of(m.allocated)},
                   {"private_pool_bytes", json_of(m.private_pools)},
                   {"reserved_unallocated_bytes", json_of(m.reserved_unallocated)},
                   {"beside_pytorch_bytes", json_of(m.beside_pytorch())},
                   {"other_processes", std::move(processes)},
                   {"findings", findings_of(m)}});
  }
  const nlohmann::ordered_json root = {
      {"schema", "plimsoll.out_of_memory/1"}, {"file", file}, {"messages", std::move(all)}, {"notes", notes}};
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
