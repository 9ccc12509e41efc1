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

// "fits", "at risk, host out of memory".
std::string verdict_words(Fit gpu, Fit host) {
  std::string text(words_of(gpu));
  return host == Fit::kFits ? text : text + fmt::format(", host {}", words_of(host));
}

std::string gib(Bytes bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes.value) / static_cast<double>(kGiB.value));
}

// Where the limit lowers the peak, savings are of what the job would take without it.
bool is_limited(const Estimate& e, const Improvements& found) {
  return e.wanted() != e.device_peak() ||
         std::ranges::any_of(found.changes, [](const Change& c) { return c.wanted != c.device_peak; });
}

std::string table_text(const Estimate& e, const Improvements& found) {
  TextTable table({"", "saves", "peak", "then", "costs"},
                  {Align::kLeft, Align::kRight, Align::kRight, Align::kLeft, Align::kLeft});
  table.add({"(as it is)", "", gib(e.wanted()), verdict_words(e.verdict.gpu, e.verdict.host)});
  for (const Change& change : found.changes)
    table.add({change.is_combination ? "several, see below" : change.to_text(), gib(change.saved),
               gib(change.wanted), verdict_words(change.gpu, change.host),
               change.is_combination ? "what they cost apart" : change.price});
  return table.to_text(2);
}

}  // namespace

std::string cure_text(const Estimate& e, const Improvements& found) {
  if (e.verdict.gpu == Fit::kFits) return {};
  if (!found.cure)
    return e.verdict.gpu == Fit::kAtRisk ? "  no change of the checklist makes it fit, alone or with others\n"
                                         : "  no change of the checklist cures it, alone or with others, "
                                           "sharding and offload included\n";
  const Change& cure = *found.cure;
  return wrapped(fmt::format("cheapest way {}: {}; costs {}; then {}, peak {}",
                             cure.worst() == Fit::kFits ? "to fit" : "to run at all", cure.to_text(),
                             cure.price, verdict_words(cure.gpu, cure.host), to_gib_text(cure.device_peak)));
}

std::string improvements_text(const Estimate& e, const Improvements& found) {
  std::string text = "\nWhat would help, each change estimated whole: GiB on each GPU";
  text += is_limited(e, found) ? ", as if it had no limit\n" : "\n";
  text += table_text(e, found);
  for (const Change& change : found.changes)
    if (change.is_combination)
      text += wrapped(
          fmt::format("several at once, with the same GPUs and the same training: {}", change.to_text()));
  if (!found.without_effect.empty())
    text += wrapped(fmt::format("saves nothing: {}", fmt::join(found.without_effect, "; ")));
  if (!found.unsupported.empty())
    text += wrapped(fmt::format("not possible here: {}", fmt::join(found.unsupported, "; ")));
  if (!found.untried.empty())
    text += wrapped(fmt::format("not tried, since this model has many operations: {}; --all-changes does",
                                fmt::join(found.untried, "; ")));
  return text;
}

}  // namespace plimsoll
