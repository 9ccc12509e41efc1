#include "simulator/exact_peaks.h"

namespace plimsoll {
namespace {

class Walk {
 public:
  explicit Walk(const Program& program) : p_(program), is_live_(program.storages.size()) {}

  std::vector<ExactPeak> run() {
    std::vector<ExactPeak> peaks;
    for (const PhaseStep& step : p_.schedule) {
      ExactPeak peak{.phase = step.phase};
      peak_ = now_;
      const Section& section = p_.sections[step.section];
      for (uint32_t i = section.first_statement; i < section.last_statement; ++i) play(p_.statements[i]);
      peak.tiers = peak_;
      peaks.push_back(std::move(peak));
    }
    return peaks;
  }

 private:
  void play(const Statement& s) {
    if (s.kind == StatementKind::kFree && is_live_[s.index]) {
      is_live_[s.index] = false;
      count(StorageId{s.index}, -1);
    }
    if (s.kind != StatementKind::kOp || shares_input_storage(p_.ops[s.index].kind)) return;
    for (TensorId t : p_.outputs(p_.ops[s.index])) {
      const StorageId storage = p_.tensor(t).storage;
      if (is_live_[storage.value]) continue;
      is_live_[storage.value] = true;
      count(storage, 1);
    }
  }
  void count(StorageId id, int64_t sign) {
    const Storage& storage = p_.storage(id);
    const auto tier = static_cast<size_t>(storage.tier);
    const Bytes bytes = storage.bytes * sign;
    TierBytes& now = now_.at(tier);
    now.categories.at(static_cast<size_t>(storage.category)) += bytes;
    now.total += bytes;
    if (now.total > peak_.at(tier).total) peak_.at(tier) = now;
  }

  const Program& p_;
  std::vector<bool> is_live_;
  BytesByTier now_{}, peak_{};
};

}  // namespace

std::vector<ExactPeak> exact_peaks(const Program& program) { return Walk(program).run(); }

}  // namespace plimsoll
