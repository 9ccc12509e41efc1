#include "report/oom_findings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "report/oom_advice.h"
#include "report/oom_contradictions.h"
#include "report/oom_need.h"
#include "report/oom_request.h"

namespace plimsoll {
namespace {

constexpr Bytes kUsualContext = kGiB;  // of CUDA with the libraries that most jobs load, rounded up
// Of what the process may have: a cause that holds less only decides when the job fails, not whether.
constexpr double kNotableShare = 0.05;

struct Finding {
  double share =
      0;  // of what the process may have; those above kNotableShare come before the job's own tensors
  std::string text;
};

class Findings {
 public:
  explicit Findings(const OutOfMemoryMessage& message)
      : said_(message),
        m_(without_contradicted(message, contradictions_of(message))),
        account_(account_of(m_)),
        need_(need_of(m_, counted())) {}

  std::vector<std::string> all() {
    if (said_ != m_)
      say(kContradicted,
          "Figures of the message contradict each other (see the notes): nothing here rests on those.");
    say_impossible();
    if (is_enough_free()) {
      say_enough_free();
    } else {
      say_limit();
      say_others();
      say_beside();
      say_fragmentation();
      say_tensors();
    }
    say_process();
    say_missing();
    return sorted();
  }

 private:
  static constexpr double kContradicted = 3, kFirst = 2, kTensors = kNotableShare, kLast = -1;

  void say(double share, std::string text) { found_.push_back({share, std::move(text)}); }
  double share_of(Bytes bytes) const {
    const Bytes whole = m_.capacity ? *m_.capacity : m_.allowed.value_or(Bytes{});
    return whole.value > 0 ? static_cast<double>(bytes.value) / static_cast<double>(whole.value) : 0;
  }

  // " (8.8 % of the device)"; nothing where that says nothing.
  std::string percent_of_device(Bytes bytes) const {
    const double percent = 100 * share_of(bytes);
    if (percent == 0 || percent > 100) return {};
    return percent < 0.1 ? " (under 0.1 % of the device)" : fmt::format(" ({:.1f} % of the device)", percent);
  }

  Bytes cached() const { return m_.reserved_unallocated.value_or(Bytes{}); }
  // What the limit counts: reserved memory, of MPS all of the process.
  Bytes counted() const {
    const Bytes of_pytorch = m_.allocated.value_or(Bytes{}) + cached();
    return m_.wording == OomWording::kMps ? m_.in_use.value_or(of_pytorch) : of_pytorch;
  }
  bool has_limit() const { return is_limit_counted(m_); }
  Bytes left_by_limit() const { return std::max(*m_.allowed - counted(), Bytes{}); }
  Bytes tolerance() const {
    return account_.tolerance + rounding_of(m_.tried) + (m_.allowed ? rounding_of(*m_.allowed) : Bytes{});
  }
  bool is_limit_reached() const { return has_limit() && left_by_limit() < m_.tried + tolerance(); }
  bool is_room_known() const { return need_ && need_->least_room == need_->most_room; }
  bool is_enough_free() const { return m_.free && *m_.free >= m_.tried && !is_limit_reached(); }

  void say_impossible() {
    if (m_.capacity && m_.tried > *m_.capacity)
      say(kFirst,
          fmt::format(
              "The request alone, {}, is larger than the device, {}: no memory that is given back and no "
              "setting makes it fit. The shapes in the call of the traceback say why it is so large; smaller "
              "batches, shorter sequences or pieces make it smaller.",
              to_text(m_.tried), to_text(*m_.capacity)));
    else if (m_.allowed && m_.tried > *m_.allowed)
      say(kFirst, fmt::format("The request alone, {}, is larger than what the process may use, {}.",
                              to_text(m_.tried), to_text(*m_.allowed)));
    if (m_.capacity && counted() > *m_.capacity + tolerance())
      say(kFirst,
          fmt::format("PyTorch holds {} on a device of {}: the driver keeps the rest in the host's memory "
                      "(Windows' shared GPU memory), which is slow.",
                      to_text(counted()), to_text(*m_.capacity)));
  }

  void say_enough_free() {
    say(kFirst,
        fmt::format(
            "{} was free when the message was written, enough for {}: something gave memory back in between, "
            "or a limit outside of PyTorch holds (MIG, a virtual GPU, the driver). Neither fragmentation nor "
            "the cache is to blame.",
            to_text(*m_.free), to_text(m_.tried)));
    if (m_.allowed)
      say(kLast, fmt::format("The process may use {}, which it hasn't reached.", to_text(*m_.allowed)));
  }

  void say_limit() {
    if (!has_limit()) return;
    if (!is_limit_reached())
      return say(kLast,
                 fmt::format("The process may use {}, which it hasn't reached.", to_text(*m_.allowed)));
    if (m_.wording == OomWording::kMps)
      return say(
          kFirst,
          fmt::format("MPS lets this process have {} and it has {}: too much for {} more. The limit is "
                      "PYTORCH_MPS_HIGH_WATERMARK_RATIO times what Metal recommends; 0.0 lifts it, and "
                      "macOS then swaps or fails.",
                      to_text(*m_.allowed), to_text(counted()), to_text(m_.tried)));
    std::string text = fmt::format(
        "The limit of {} was reached (torch.cuda.set_per_process_memory_fraction()): {} is reserved and {} "
        "was asked "
        "for.",
        to_text(*m_.allowed), to_text(counted()), to_text(m_.tried));
    if (m_.free && *m_.free >= m_.tried)
      text += fmt::format(" The device itself has {} free: a larger fraction would do.", to_text(*m_.free));
    say(kFirst, std::move(text));
  }

  void say_others() {
    if (m_.free && *m_.free >= m_.tried) return;
    if (!account_.others.empty() && account_.how != OwnProcess::kUndecided)
      say(share_of(account_.of_others()),
          fmt::format("Other processes hold {} of this GPU; ended, or elsewhere, they leave it to the job.",
                      to_text(account_.of_others())));
    if (account_.how == OwnProcess::kNoneListed && account_.unnamed && *account_.unnamed > kUsualContext)
      say(share_of(*account_.unnamed - kUsualContext),
          fmt::format(
              "{} is neither free nor PyTorch's: the context and libraries take up to about {}, other "
              "processes, NCCL or another framework the rest. {}",
              to_text(*account_.unnamed), to_text(kUsualContext),
              said_.unmeasured > 0 ? "The driver doesn't say here what each process uses."
              : said_.in_use || !said_.processes.empty()
                  ? "What the message says of processes is contradicted."
                  : "The message lists no process; `nvidia-smi` does."));
  }

  void say_beside() {
    if (!account_.beside || *account_.beside <= kUsualContext) return;
    if (m_.wording == OomWording::kMps)
      return say(
          share_of(*account_.beside),
          fmt::format(
              "{} is this process's but not of PyTorch's allocator: Metal's own graphs and kernels, or "
              "another library on Metal.",
              to_text(*account_.beside)));
    say(share_of(*account_.beside - kUsualContext),
        fmt::format(
            "{} is this process's but not of PyTorch's allocator: the context and libraries take up to "
            "about {}, NCCL's buffers, another framework or CUDA code of one's own the rest.",
            to_text(*account_.beside), to_text(kUsualContext)));
  }

  void say_fragmentation() {
    if (!m_.reserved_unallocated || !need_ || need_->is_beyond_device) return;
    const Bytes needed = smallest_tensor(m_), room = need_->most_room;
    const double share = share_of(cached());
    const std::string held = to_text(cached()) + percent_of_device(cached());
    if (cached() + room < needed)
      say(std::min(share, kTensors / 2),
          fmt::format("Fragmentation isn't the cause: {} was cached and unused and {}{} was to be had, "
                      "together less than {}.",
                      to_text(cached()), is_room_known() ? "" : "at most ", to_text(room), to_text(needed)));
    else if (!is_room_known())
      say(std::min(share, kTensors / 2),
          fmt::format("Whether fragmentation decided can't be told: {} was cached, and what was free of the "
                      "rest isn't said.",
                      held));
    else if (cached() >= needed)
      say(share, fmt::format("Fragmentation: {} lay cached and could not serve the request, in pieces that "
                             "were too small or of another stream or pool. {}",
                             held, verdict()));
    else
      say(share, fmt::format("Fragmentation: {} cached and {} to be had together would have been enough. {}",
                             held, to_text(room), verdict()));
  }
  // Expandable segments can't use holes that are smaller than a page of 20 MiB or in private pools: served is
  // likely where much more was cached than asked for. What is left is for those that follow.
  std::string verdict() const {
    std::string text = fragmentation_advice(m_);
    if (!text.empty()) text += ' ';
    const Bytes all = cached() + need_->most_room;
    const bool is_plenty = all >= m_.tried * 2 && !m_.private_pools;
    if (has_expandable_segments(m_))
      text += fmt::format("The request {} have been served then. ", is_plenty ? "would most likely" : "may");
    const Bytes left = std::max(all - smallest_tensor(m_), Bytes{});
    return text + fmt::format("At most {} would be left for the next ones.", to_text(left));
  }

  void say_tensors() {
    if (!need_ || m_.tried <= need_->least_room || need_->is_beyond_device) return;
    if (m_.wording == OomWording::kMps)
      return say(kTensors,
                 fmt::format("For this request freeing {} would have been enough; later ones may need more.",
                             to_text(need_->enough)));
    if (need_->missing.value > 0) return say_not_ours();
    const std::string who = m_.allocated
                                ? fmt::format("The job's own tensors hold {}{}. ", to_text(*m_.allocated),
                                              percent_of_device(*m_.allocated))
                                : std::string();
    say(kTensors,
        fmt::format("{}For this request {}. Later ones may need more: `plimsoll estimate` of the job says "
                    "what holds the memory and what would help.",
                    who, less_text()));
  }
  // Other processes and what lies beside the allocator hold the rest.
  void say_not_ours() {
    say(kTensors,
        fmt::format("The job's own tensors hold {}{}. Without any of them the request would still miss {}: "
                    "the rest of the device is held by others, or by this process beside PyTorch's "
                    "allocator.",
                    to_text(*m_.allocated), percent_of_device(*m_.allocated), to_text(need_->missing)));
  }
  std::string less_text() const {
    std::string freeing =
        fmt::format("freeing {}, in whole segments, would have been enough", to_text(need_->enough));
    if (cached().value == 0 && is_room_known()) return freeing;
    return fmt::format("{}; with an unfragmented cache{} {}", freeing,
                       is_room_known() ? "" : ", and all that PyTorch doesn't hold,",
                       need_->least.value == 0 ? "none" : to_text(need_->least));
  }

  // Sentences of PyTorch that the text lacks, and what can't be told without them.
  void say_missing() {
    if (m_.wording != OomWording::kFrom21) return;
    std::vector<std::string_view> missing;
    if (!said_.capacity) missing.emplace_back("the size of the device");
    if (!said_.free) missing.emplace_back("what of the device was free");
    if (!said_.allocated) missing.emplace_back("what tensors held");
    if (!said_.reserved_unallocated)
      missing.emplace_back("what was cached (\"reserved by PyTorch but unallocated\")");
    if (missing.empty()) return;
    const bool is_cut = missing.size() > 1 || m_.kind != "XPU";
    say(kLast,
        fmt::format("The text doesn't say {}, so {}. {}", fmt::join(missing, ", "),
                    said_.allocated ? "the figures above are bounds"
                                    : "whether the job, other processes or fragmentation filled the device "
                                      "can't be told",
                    is_cut ? "Paste the whole message, to \"reserved by PyTorch but unallocated\", or "
                             "record a snapshot (docs/snapshots.md); `plimsoll estimate` says what the "
                             "job needs."
                           : "Older versions of PyTorch for XPU don't print it; xpu-smi shows it."));
  }

  void say_process() {
    const auto id = [](const OutOfMemoryMessage::Process& process) { return process.id; };
    std::vector<int64_t> ids;
    if (account_.how == OwnProcess::kBySums)
      say(kLast,
          fmt::format("Process {} is this one, as it is numbered outside of its container: its {} hold the "
                      "tensors and the cache, and beside them would be more than the device has.",
                      account_.own->id, to_text(account_.own->in_use)));
    if (account_.how == OwnProcess::kOneOfSeveral) {
      std::ranges::transform(account_.one_is_own, std::back_inserter(ids), id);
      say(kLast,
          fmt::format(
              "One of the processes {} is this one, as it is numbered outside of its container: beside "
              "them the tensors would not fit the device. Which one, the sums can't tell.",
              fmt::join(ids, ", ")));
    }
    if (account_.how == OwnProcess::kUndecided) {
      std::ranges::transform(account_.others, std::back_inserter(ids), id);
      say(share_of(account_.of_others()),
          fmt::format(
              "Process {} holds {}. The sums allow both: another's, or this one's, as it is numbered outside "
              "of its container. `nvidia-smi` on the host tells.",
              fmt::join(ids, ", "), to_text(account_.of_others())));
    }
  }

  std::vector<std::string> sorted() {
    std::ranges::stable_sort(found_, std::greater(), &Finding::share);
    std::vector<std::string> texts;
    for (Finding& finding : found_) texts.push_back(std::move(finding.text));
    return texts;
  }

  const OutOfMemoryMessage& said_;
  OutOfMemoryMessage m_;  // without what is contradicted
  OomAccount account_;
  std::optional<OomNeed> need_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<std::string> findings_of(const OutOfMemoryMessage& message) { return Findings(message).all(); }

}  // namespace plimsoll
