#include "report/compare_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/text_table.h"
#include "report/signed_bytes.h"

namespace plimsoll {
namespace {

struct Difference {
  std::string name;
  Bytes a, b;

  Bytes change() const { return b - a; }
};

std::vector<Difference> differences(const std::map<std::string, Bytes>& a,
                                    const std::map<std::string, Bytes>& b) {
  std::map<std::string, Difference> all;
  for (const auto& [name, bytes] : a) all[name].a = bytes;
  for (const auto& [name, bytes] : b) all[name].b = bytes;
  std::vector<Difference> sorted;
  for (auto& [name, difference] : all) {
    difference.name = name;
    if (difference.a.value != 0 || difference.b.value != 0) sorted.push_back(difference);
  }
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const Difference& d) { return std::abs(d.change().value); });
  return sorted;
}

void add(TextTable& table, const std::string& name, Bytes a, Bytes b) {
  table.add({name, to_text(a), to_text(b), signed_text(b - a)});
}

std::string table_text(const std::string& title, const std::vector<Difference>& all, size_t most) {
  if (all.empty()) return {};
  TextTable table({title, "A", "B", "B - A"}, {Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  Difference rest;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < most) {
      add(table, all[i].name, all[i].a, all[i].b);
      continue;
    }
    rest.a += all[i].a;
    rest.b += all[i].b;
  }
  if (all.size() > most) add(table, fmt::format("{} more", all.size() - most), rest.a, rest.b);
  return "\n" + table.to_text(2);
}

// "by user metadata, 42 % of what was allocated at the peak"
std::string side_text(const SideOfModules& side) {
  const double all = static_cast<double>((side.known + side.unknown).value);
  const double share = all > 0 ? 100 * static_cast<double>(side.known.value) / all : 0;
  return fmt::format("{}, {:.0f} % of the memory", side.how, share);
}

std::string modules_text(const ModuleComparison& modules, size_t most) {
  if (!modules.is_known()) return {};
  TextTable table({"by module", "for", "A", "B", "B - A"},
                  {Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  Bytes rest_a, rest_b;
  const auto row = [&](const std::string& module, const std::string& role, Bytes a, Bytes b) {
    table.add({module, role, to_text(a), to_text(b), signed_text(b - a)});
  };
  for (size_t i = 0; i < modules.rows.size(); ++i) {
    const ModuleDifference& m = modules.rows[i];
    if (i < most) {
      row(m.module, m.role, m.a, m.b);
      continue;
    }
    rest_a += m.a;
    rest_b += m.b;
  }
  if (modules.rows.size() > most) row(fmt::format("{} more", modules.rows.size() - most), "", rest_a, rest_b);
  std::string text = "\n" + table.to_text(2);
  text += fmt::format("  modules are known of A {}; of B {}\n", side_text(modules.a), side_text(modules.b));
  if (!modules.other_roles.empty())
    text += fmt::format("  not compared by module, since one side names none there: {}\n",
                        fmt::join(modules.other_roles, ", "));
  return text;
}

// Why there is no table, where one side could have made one.
std::string missing_modules_text(const ModuleComparison& modules) {
  if (modules.is_known() || (modules.a.how.empty() && modules.b.how.empty())) return {};
  if (!modules.a.how.empty() && !modules.b.how.empty())
    return "modules aren't compared: of no kind of memory both sides name some";
  return fmt::format(
      "modules aren't compared: {}'s stacks name files, lines and functions, and neither its user metadata "
      "nor "
      "its ranges name a module of {} (docs/snapshots.md says how to record them)",
      modules.a.how.empty() ? "A" : "B", modules.a.how.empty() ? "B" : "A");
}

std::string peaks_text(const MemoryProfile& a, const MemoryProfile& b) {
  TextTable table({"peak", "A", "B", "B - A"}, {Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  const auto row = [&](const char* name, const std::optional<Bytes>& left,
                       const std::optional<Bytes>& right) {
    if (left && right) add(table, name, *left, *right);
  };
  row("allocated", a.allocated, b.allocated);
  row("active", a.active, b.active);
  row("reserved", a.reserved, b.reserved);
  return table.to_text(2);
}

}  // namespace

std::string compare_page(const MemoryProfile& a, const MemoryProfile& b, size_t most_lines) {
  std::string text = fmt::format("A  {}\nB  {}\n\n", a.name, b.name) + peaks_text(a, b);
  text += table_text("allocated at the peak, for", differences(a.categories, b.categories), SIZE_MAX);
  const ModuleComparison modules = compare_modules(a.modules, b.modules);
  text += modules_text(modules, most_lines);
  if (!modules.is_known() && !a.places.empty() && !b.places.empty())
    text += table_text("by line of code", differences(a.places, b.places), most_lines);
  std::vector<std::string> notes = a.notes;
  for (const std::string& note : b.notes)
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  if (const std::string missing = missing_modules_text(modules); !missing.empty()) notes.push_back(missing);
  if (!notes.empty()) text += "\nNotes\n";
  for (const std::string& note : notes) text += fmt::format("  {}\n", note);
  return text;
}

}  // namespace plimsoll
