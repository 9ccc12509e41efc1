#include "report/compare_page.h"

#include <fmt/format.h>

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
  if (!a.places.empty() && !b.places.empty())
    text += table_text("by line of code", differences(a.places, b.places), most_lines);
  std::vector<std::string> notes = a.notes;
  for (const std::string& note : b.notes)
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  if (!notes.empty()) text += "\nNotes\n";
  for (const std::string& note : notes) text += fmt::format("  {}\n", note);
  return text;
}

}  // namespace plimsoll
