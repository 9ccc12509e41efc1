#include "runtime/cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "runtime/communication/texts.h"

namespace plimsoll::runtime {
namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id.empty() ? "unknown" : id;
}

// The kernel refuses a set that is smaller than its own.
std::vector<int> affinity() {
  constexpr int kMostCores = 1 << 16;
  const size_t bytes = CPU_ALLOC_SIZE(kMostCores);
  const auto free = [](cpu_set_t* set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free)> set(CPU_ALLOC(kMostCores), free);
  std::vector<int> cores;
  if (!set || sched_getaffinity(0, bytes, set.get()) != 0) return cores;
  for (int core = 0; core < kMostCores; ++core)
    if (CPU_ISSET_S(static_cast<size_t>(core), bytes, set.get())) cores.push_back(core);
  return cores;
}

bool share_cores(const AllowedCores& a, const AllowedCores& b) {
  return a.machine == b.machine && std::ranges::find_first_of(a.cores, b.cores) != a.cores.end();
}

}  // namespace

std::string AllowedCores::to_text() const { return fmt::format("{}: {}", machine, fmt::join(cores, " ")); }

AllowedCores allowed_cores() {
  AllowedCores allowed{.machine = boot_id(), .cores = affinity()};
  if (allowed.cores.empty())
    for (int core = 0; core < static_cast<int>(std::thread::hardware_concurrency()); ++core)
      allowed.cores.push_back(core);
  return allowed;
}

AllowedCores allowed_cores_of(const std::string& text) {
  const size_t colon = std::min(text.find(": "), text.size());
  AllowedCores allowed{.machine = text.substr(0, colon), .cores = {}};
  std::istringstream cores(text.substr(std::min(colon + 2, text.size())));
  for (int core = 0; cores >> core;) allowed.cores.push_back(core);
  return allowed;
}

int64_t cores_of_rank(const std::vector<AllowedCores>& ranks, size_t rank) {
  const AllowedCores& own = ranks.at(rank);
  const auto sharers =
      std::ranges::count_if(ranks, [&](const AllowedCores& r) { return share_cores(own, r); });
  return std::max<int64_t>(1, static_cast<int64_t>(own.cores.size()) / std::max<int64_t>(1, sharers));
}

Result<int64_t> cores_of_rank(Communicator& communicator) {
  PLIMSOLL_TRY(texts, gather_texts(communicator, allowed_cores().to_text()));
  std::vector<AllowedCores> ranks;
  for (const std::string& text : texts) ranks.push_back(allowed_cores_of(text));
  return cores_of_rank(ranks, static_cast<size_t>(communicator.rank()));
}

}  // namespace plimsoll::runtime
