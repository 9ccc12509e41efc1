#include "report/oom_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/text_table.h"
#include "report/memory_failure_page.h"
#include "report/oom_account.h"
#include "report/oom_contradictions.h"
#include "report/oom_findings.h"
#include "report/oom_request.h"

namespace plimsoll {
namespace {

// Messages that differ in nothing but the GPU, as from the ranks of one job.
struct AlikeMessages {
  OutOfMemoryMessage first;
  std::vector<int> devices;
};

std::vector<AlikeMessages> alike(const std::vector<OutOfMemoryMessage>& messages) {
  std::vector<AlikeMessages> all;
  for (const OutOfMemoryMessage& m : messages) {
    const auto is_alike = [&](const AlikeMessages& other) {
      OutOfMemoryMessage there = other.first;
      there.device = m.device;
      return m.device && !other.devices.empty() && there == m;
    };
    const auto found = std::ranges::find_if(all, is_alike);
    if (found == all.end())
      all.push_back({.first = m, .devices = m.device ? std::vector{*m.device} : std::vector<int>()});
    else
      found->devices.push_back(*m.device);
  }
  return all;
}

std::string title(const std::string& file, const AlikeMessages& messages) {
  const OutOfMemoryMessage& m = messages.first;
  std::string text = fmt::format("{}: {} out of memory", file, m.kind.empty() ? "GPU" : m.kind);
  if (!messages.devices.empty())
    text += fmt::format(" on GPU{} {}", messages.devices.size() > 1 ? "s" : "",
                        fmt::join(messages.devices, ", "));
  text += fmt::format(": {} was asked for", to_text(m.tried));
  if (const std::string tensor = tensor_text(m); !tensor.empty())
    text += fmt::format(", the segment for {}", tensor);
  if (m.times > 1) text += fmt::format(" ({} times the same message)", with_thousands(m.times));
  return text + "\n";
}

std::string ids_of(const std::vector<OutOfMemoryMessage::Process>& processes) {
  std::vector<int64_t> ids;
  for (const OutOfMemoryMessage::Process& process : processes) ids.push_back(process.id);
  return fmt::format("{}", fmt::join(ids, ", "));
}

// What nothing contradicts.
OomAccount believable_account(const OutOfMemoryMessage& m) {
  return account_of(without_contradicted(m, contradictions_of(m)));
}

// Contradicted ones as the message lists them.
const std::vector<OutOfMemoryMessage::Process>& others_of(const OutOfMemoryMessage& m,
                                                          const OomAccount& account) {
  const bool is_known = !account.others.empty() || !account.one_is_own.empty() || account.own;
  return is_known ? account.others : m.processes;
}

// All that the message says; what follows from it only where nothing contradicts it.
std::string table_of(const OutOfMemoryMessage& m) {
  const OomAccount account = believable_account(m);
  const bool is_mps = m.wording == OomWording::kMps;
  TextTable table({"", ""}, {Align::kLeft, Align::kRight});
  bool has_rows = false;
  const auto row = [&](std::string what, const std::optional<Bytes>& size) {
    if (!size) return;
    table.add({std::move(what), to_text(*size)});
    has_rows = true;
  };
  row(is_mps ? "of PyTorch's allocator, cached blocks too" : "allocated by tensors", m.allocated);
  row("  of it in private pools (CUDA graphs, MemPool)", m.private_pools);
  row("cached, not allocated", m.reserved_unallocated);
  row("of this process, beside PyTorch's allocator", account.beside);
  if (!account.one_is_own.empty())
    row(fmt::format("processes {}, beside the above", ids_of(account.one_is_own)), account.beyond_own);
  for (const OutOfMemoryMessage::Process& process : others_of(m, account))
    row(fmt::format("process {}", process.id), process.in_use);
  const bool is_all_named = account.own_use || !account.one_is_own.empty();
  if (account.unnamed && (!is_all_named || *account.unnamed > kMiB * 64))
    row(is_all_named ? "not named by the message" : "context, libraries, other processes", account.unnamed);
  row("free", m.free);
  if (has_rows && (m.capacity || m.allowed)) table.add_rule();
  row("capacity of the device", m.capacity);
  row("allowed to this process", m.allowed);
  return has_rows ? table.to_text(2) : std::string();
}

nlohmann::ordered_json json_of(const std::optional<Bytes>& size) {
  return size ? nlohmann::ordered_json(size->value) : nlohmann::ordered_json();
}

std::string_view name_of(OwnProcess how) {
  constexpr std::array<std::string_view, 6> kNames = {"named",   "none-listed",    "not-listed",
                                                      "by-sums", "one-of-several", "undecided"};
  return kNames[static_cast<size_t>(how)];
}

nlohmann::ordered_json json_of(const std::vector<OutOfMemoryMessage::Process>& processes) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const OutOfMemoryMessage::Process& process : processes)
    all.push_back({{"id", process.id}, {"bytes", process.in_use.value}});
  return all;
}

nlohmann::ordered_json tensor_json(const OutOfMemoryMessage& m) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const TensorRange& range : tensor_ranges(m))
    all.push_back({{"above_bytes", range.above.value}, {"up_to_bytes", range.up_to.value}});
  return all;
}

nlohmann::ordered_json json_of(const std::vector<OomContradiction>& contradictions) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const OomContradiction& contradiction : contradictions) {
    nlohmann::ordered_json figures = nlohmann::ordered_json::array();
    for (const OomFigure figure : contradiction.figures) figures.push_back(name_of(figure));
    all.push_back({{"what", contradiction.text},
                   {"figures", std::move(figures)},
                   {"not_concluded", contradiction.not_concluded}});
  }
  return all;
}

// Of one message; where there are several, each says whose it is.
std::vector<std::string> notes_of(const OutOfMemoryMessage& m, bool is_only) {
  std::vector<std::string> notes;
  for (const OomContradiction& contradiction : contradictions_of(m)) notes.push_back(contradiction.note());
  if (m.unmeasured > 0)
    notes.push_back(
        fmt::format("the driver doesn't say what {} use{}: it writes 17179869184.00 GiB then, as in WSL 2",
                    m.unmeasured == 1 ? "a process" : fmt::format("{} processes", m.unmeasured),
                    m.unmeasured == 1 ? "s" : ""));
  if (!is_only && m.device)
    for (std::string& note : notes) note = fmt::format("GPU {}: {}", *m.device, note);
  return notes;
}

nlohmann::ordered_json json_of(const OutOfMemoryMessage& m) {
  const OomAccount account = believable_account(m);
  return {{"kind", m.kind},
          {"device", m.device ? nlohmann::ordered_json(*m.device) : nlohmann::ordered_json()},
          {"times", m.times},
          {"tried_bytes", m.tried.value},
          {"tensor_ranges", tensor_json(m)},
          {"capacity_bytes", json_of(m.capacity)},
          {"free_bytes", json_of(m.free)},
          {"in_use_bytes", json_of(m.in_use ? m.in_use : account.own_use)},
          {"allowed_bytes", json_of(m.allowed)},
          {"allocated_bytes", json_of(m.allocated)},
          {"private_pool_bytes", json_of(m.private_pools)},
          {"reserved_unallocated_bytes", json_of(m.reserved_unallocated)},
          {"beside_pytorch_bytes", json_of(account.beside)},
          {"unnamed_bytes", json_of(account.unnamed)},
          {"own_process",
           {{"id", account.own ? nlohmann::ordered_json(account.own->id) : nlohmann::ordered_json()},
            {"how", name_of(account.how)}}},
          {"one_is_own_process", json_of(account.one_is_own)},
          {"other_processes", json_of(others_of(m, account))},
          {"contradictions", json_of(contradictions_of(m))},
          {"findings", findings_of(m)}};
}

nlohmann::ordered_json json_of(const MemoryFailure& failure) {
  return {{"kind", name_of(failure.kind)},
          {"line", failure.line},
          {"text", failure.text},
          {"times", failure.times},
          {"memory", memory_of(failure.kind)},
          {"asked_bytes", json_of(failure.asked)},
          {"held_bytes", json_of(failure.held)},
          {"meaning", meaning_of(failure.kind)},
          {"help", help_of(failure.kind)}};
}

}  // namespace

std::string oom_page(const std::string& file, const std::vector<OutOfMemoryMessage>& messages,
                     const std::vector<std::string>& notes) {
  std::string text, own_notes;
  const std::vector<AlikeMessages> all = alike(messages);
  for (const AlikeMessages& same : all) {
    const OutOfMemoryMessage& m = same.first;
    if (!text.empty()) text += "\n";
    text += title(file, same) + table_of(m) + "\nWhat the numbers say\n";
    for (const std::string& finding : findings_of(m)) text += "  - " + finding + "\n";
    for (const std::string& note : notes_of(m, all.size() == 1)) own_notes += "  " + note + "\n";
  }
  text += "\nNotes\n  the message rounds: sizes in GiB may be 5 MiB more or less\n" + own_notes;
  for (const std::string& note : notes) text += "  " + note + "\n";
  return text;
}

std::string oom_json(const std::string& file, const std::vector<OutOfMemoryMessage>& messages,
                     const std::vector<MemoryFailure>& failures, const std::vector<std::string>& notes) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array(), others = nlohmann::ordered_json::array();
  std::vector<std::string> all_notes = notes;
  for (const OutOfMemoryMessage& m : messages) {
    all.push_back(json_of(m));
    for (std::string& note : notes_of(m, messages.size() == 1)) all_notes.push_back(std::move(note));
  }
  for (const MemoryFailure& failure : failures) others.push_back(json_of(failure));
  const nlohmann::ordered_json root = {{"schema", "plimsoll.out_of_memory/1"},
                                       {"file", file},
                                       {"messages", std::move(all)},
                                       {"failures", std::move(others)},
                                       {"notes", all_notes}};
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
