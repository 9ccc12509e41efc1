#include "train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <vector>

#include "cli/command_line.h"
#include "runtime/communication/texts.h"

namespace plimsoll {
namespace {

// Of a rank with an error: kUsersFault or kOurs, then its text. Of others kReady, then the job.
constexpr char kReady = 'r', kUsersFault = 'u', kOurs = 'o';

std::string message_of(const Result<void>& own, const std::string& job) {
  if (own) return kReady + job;
  return (own.error().is_internal ? kOurs : kUsersFault) + own.error().to_text();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Error other_job(size_t rank, const std::string& theirs, const std::string& first) {
  std::vector<std::string> there = lines_of(theirs), here = lines_of(first);
  const auto [t, h] = std::ranges::mismatch(there, here);
  return {.message = fmt::format(
              "rank {} was started with another job than rank 0: {} on rank {}, {} on rank 0", rank,
              t == there.end() ? "nothing more" : *t, rank, h == here.end() ? "nothing more" : *h),
          .expected = "the same job file and options on every rank"};
}

}  // namespace

Result<void> agree(runtime::Communicator& communicator, const Result<void>& own, const std::string& job) {
  PLIMSOLL_TRY(all, runtime::gather_texts(communicator, message_of(own, job)));
  const auto failed = std::ranges::find_if(all, [](const std::string& text) { return text[0] != kReady; });
  if (failed == all.end()) {
    for (size_t r = 1; r < all.size(); ++r)
      if (all[r] != all[0]) return fail(other_job(r, all[r].substr(1), all[0].substr(1)));
    return {};
  }
  const auto rank = failed - all.begin();
  if (rank == 0 && !own && message_of(own, job) == *failed) return own;
  return fail({.message = (rank == 0 ? "" : fmt::format("rank {}: ", rank)) + failed->substr(1),
               .is_internal = (*failed)[0] == kOurs});
}

int end_together(runtime::Communicator& communicator, const Error& error) {
  if (communicator.rank() == 0) {
    print_error(error);
    std::fflush(stderr);
  }
  (void)runtime::meet(communicator);  // the run fails in any case
  return exit_code_of(error);
}

}  // namespace plimsoll
