#include "report/oom_account.h"

#include <algorithm>

namespace plimsoll {
namespace {

using Process = OutOfMemoryMessage::Process;

// The smallest context of a CUDA process that is known: 123 MiB, of a T4 (data/gpus/t4.toml).
constexpr Bytes kLeastContext = kMiB * 100;

Bytes sum_of(const std::vector<Process>& processes) {
  Bytes sum;
  for (const Process& process : processes) sum += process.in_use;
  return sum;
}

// Tensors and cache.
Bytes of_allocator(const OutOfMemoryMessage& m) {
  return m.allocated.value_or(Bytes{}) + m.reserved_unallocated.value_or(Bytes{});
}

Bytes tolerance_of(const OutOfMemoryMessage& m) {
  Bytes sum;
  for (const std::optional<Bytes>* size : {&m.capacity, &m.free, &m.allocated, &m.reserved_unallocated})
    if (*size) sum += rounding_of(**size);
  for (const Process& process : m.processes) sum += rounding_of(process.in_use);
  return sum;
}

// Whether this process's memory, its context too, and that of all listed are more than the device has.
bool exceed_device(const OutOfMemoryMessage& m, Bytes tolerance) {
  if (!m.capacity || !m.free) return false;
  return of_allocator(m) + kLeastContext + sum_of(m.processes) + *m.free > *m.capacity + tolerance;
}

void find_own(const OutOfMemoryMessage& m, OomAccount& account) {
  std::vector<Process> able, rest;
  for (const Process& process : m.processes)
    (process.in_use + account.tolerance >= of_allocator(m) ? able : rest).push_back(process);
  if (able.empty()) {
    account.how = OwnProcess::kNotListed;
    account.others = m.processes;
  } else if (!m.allocated || !exceed_device(m, account.tolerance)) {
    account.how = OwnProcess::kUndecided;
    account.others = m.processes;
  } else if (able.size() > 1) {
    account.how = OwnProcess::kOneOfSeveral;
    account.others = std::move(rest);
    account.beyond_own = std::max(sum_of(able) - of_allocator(m), Bytes{});
    account.one_is_own = std::move(able);
  } else {
    account.how = OwnProcess::kBySums;
    account.own = able[0];
    account.own_use = able[0].in_use;
    account.others = std::move(rest);
  }
}

// Not of the two that the message counts.
void find_unnamed(const OutOfMemoryMessage& m, OomAccount& account) {
  if (!m.capacity || !m.free || !m.allocated) return;
  const Bytes ours = account.own_use.value_or(of_allocator(m) + account.beyond_own);
  account.unnamed = std::max(*m.capacity - *m.free - ours - account.of_others(), Bytes{});
}

}  // namespace

Bytes OomAccount::of_others() const { return sum_of(others); }

Bytes rounding_of(Bytes written) {
  const Bytes unit = written >= kGiB ? kGiB : written >= kMiB ? kMiB : written >= kKiB ? kKiB : Bytes{0};
  return unit / 200;
}

OomAccount account_of(const OutOfMemoryMessage& m) {
  OomAccount account{.own_use = m.in_use, .tolerance = tolerance_of(m)};
  if (m.in_use) {
    account.how = OwnProcess::kNamed;
    account.others = m.processes;
  } else if (!m.processes.empty()) {
    find_own(m, account);
  }
  const bool knows_cache = m.reserved_unallocated || m.wording == OomWording::kMps;
  if (account.own_use && m.allocated && knows_cache)
    account.beside = std::max(*account.own_use - of_allocator(m), Bytes{});
  find_unnamed(m, account);
  return account;
}

}  // namespace plimsoll
