#include "report/improvements_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text_table.h"
#include "report/job_text.h"

namespace plimsoll {
namespace {

std::string_view words_of(Fit fit) {
  return fit == Fit::kFits ? "fits" : fit == Fit::kAtRisk ? "at risk" : "out of memory";
}

// "fits", "host out of memory", "host out of memory, GPU at risk": the worse first. Where the host isn't
// looked at, "out of memory" is the GPU's.
std::string verdict_words(Fit gpu, Fit host, bool names_gpu) {
  if (host == Fit::kFits)
    return fmt::format("{}{}", names_gpu && gpu != Fit::kFits ? "GPU " : "", words_of(gpu));
  if (gpu == Fit::kFits) return fmt::format("host {}", words_of(host));
  if (gpu == host) return fmt::format("GPU and host {}", words_of(gpu));
  return host > gpu ? fmt::format("host {}, GPU {}", words_of(host), words_of(gpu))
                    : fmt::format("GPU {}, host {}", words_of(gpu), words_of(host));
}

// A job at risk that takes more than the GPU has without limit runs since the allocator gives cached segments
// back in time.
std::string verdict_of(const Estimate& e, Fit gpu, Fit host, Bytes wanted, bool has_host) {
  std::string words = verdict_words(gpu, host, has_host);
  if (gpu == Fit::kAtRisk && wanted > e.device_limit()) words += ", by freeing its cache";
  return words;
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes.value) / static_cast<double>(kGiB.value));
}

// Where the limit lowers the peak, savings are of what the job would take without it.
bool is_limited(const Estimate& e, const Improvements& found) {
  return e.wanted() != e.device_peak() ||
         std::ranges::any_of(found.changes, [](const Change& c) { return c.wanted != c.device_peak; });
}

bool is_host_short(const Estimate& e, const Improvements& found) {
  const auto is_short = [](Fit host) { return host != Fit::kFits; };
  return is_short(e.verdict.host) || std::ranges::any_of(found.changes, is_short, &Change::host);
}

std::string table_text(const Estimate& e, const Improvements& found) {
  const bool has_host = is_host_short(e, found);
  const auto row = [&](std::vector<std::string> cells, Bytes host) {
    if (has_host) cells.insert(cells.begin() + 3, gib(host));
    return cells;
  };
  std::vector<std::string> header{"", "saves", "peak", "then", "costs"};
  std::vector<Align> alignment{Align::kLeft, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft};
  if (has_host) header.insert(header.begin() + 3, "host");
  if (has_host) alignment.insert(alignment.begin() + 3, Align::kRight);
  TextTable table(std::move(header), std::move(alignment));
  table.add(row(
      {"(as it is)", "", gib(e.wanted()), verdict_of(e, e.verdict.gpu, e.verdict.host, e.wanted(), has_host)},
      e.host_peak));
  for (const Change& change : found.changes)
    table.add(row({change.is_combination ? "several, see below" : change.to_text(), gib(change.saved),
                   gib(change.wanted), verdict_of(e, change.gpu, change.host, change.wanted, has_host),
                   change.is_combination ? "what they cost apart" : change.price},
                  change.host_peak));
  return table.to_text(2);
}

std::string no_cure_text(const Estimate& e, const Improvements& found) {
  const std::string_view cures = e.verdict.worst() == Fit::kAtRisk ? "makes it fit" : "cures it";
  if (found.is_search_cut || !found.untried.empty())
    return fmt::format("no change was found that {}, of those tried; --all-changes tries more", cures);
  return fmt::format("no change of the checklist {}, alone or with others, more GPUs included", cures);
}

}  // namespace

std::string cure_text(const Estimate& e, const Improvements& found) {
  if (e.verdict.worst() == Fit::kFits) return {};
  if (!found.cure) return wrapped(no_cure_text(e, found));
  const Change& cure = *found.cure;
  const bool is_whole_search = !found.is_search_cut && found.untried.empty();
  std::string text = fmt::format(
      "{} {}: {}; costs {}; then {}, peak {}", is_whole_search ? "cheapest way" : "one way",
      cure.worst() == Fit::kFits ? "to fit" : "to run at all", cure.to_text(), cure.price,
      verdict_words(cure.gpu, cure.host, e.verdict.host != Fit::kFits), to_gib_text(cure.device_peak));
  if (e.verdict.host != Fit::kFits || cure.host != Fit::kFits)
    text += fmt::format(", host {} for each rank", to_gib_text(cure.host_peak));
  if (!is_whole_search) text += "; not all were tried: --all-changes looks for the cheapest";
  return wrapped(text);
}

std::string improvements_text(const Estimate& e, const Improvements& found) {
  std::string text = "\nWhat would help, each change estimated whole: GiB on each GPU";
  if (is_host_short(e, found)) text += ", and on the host for each rank";
  text += is_limited(e, found) ? ", as if it had no limit\n" : "\n";
  text += table_text(e, found);
  for (const Change& change : found.changes)
    if (change.is_combination)
      text += wrapped(
          fmt::format("several at once, with the same GPUs and the same training: {}", change.to_text()));
  if (!found.without_effect.empty())
    text += wrapped(
        fmt::format("doesn't lower the highest peak alone: {}", fmt::join(found.without_effect, "; ")));
  if (!found.unsupported.empty())
    text += wrapped(fmt::format("not possible here: {}", fmt::join(found.unsupported, "; ")));
  if (!found.untried.empty())
    text += wrapped(fmt::format("not tried, to answer at once: {}; --all-changes tries them",
                                fmt::join(found.untried, "; ")));
  return text;
}

}  // namespace plimsoll
