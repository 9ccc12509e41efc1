// Small models and their programs, for tests.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/native/training.h"
#include "frameworks/pytorch/small_model.h"
#include "strategy/job_file.h"
#include "strategy/resolve.h"

namespace plimsoll::native {

inline constexpr int64_t kRanks = 4;

// Whose heads are of one width in every family, and whose learned positions are few.
inline Architecture small(const std::string& family, int64_t layers = 2) {
  using pytorch::member;
  const ConfigMember blocks = member("num_hidden_layers", layers);
  if (family != "gpt2") return pytorch::small(family, {member("head_dim", 8), blocks});
  return pytorch::small(family, {member("max_position_embeddings", 64), blocks});
}

inline Result<ResolvedJob> job_of(const Architecture& a, const std::vector<std::string>& settings) {
  Job job;
  job.framework = Framework::kNative;
  std::vector<std::string> all = {"batch.sequence=16", "batch.micro_batch=2"};
  all.insert(all.end(), settings.begin(), settings.end());
  for (const std::string& s : all) PLIMSOLL_CHECK(apply_setting(job, s));
  return resolve(job, a, {.name = "cpu"});
}

inline Training training_of(const Architecture& a, const std::vector<std::string>& settings,
                            int64_t rank = 0) {
  const auto job = job_of(a, settings);
  if (!job) throw std::runtime_error(job.error().to_text());
  PassList passes({.verifies = true});
  auto training = build_training(a, *job, {.rank = rank, .passes = &passes});
  if (!training) throw std::runtime_error(training.error().to_text());
  return std::move(*training);
}

inline std::vector<std::string> with_stage(int64_t stage, std::vector<std::string> settings = {}) {
  settings.insert(settings.end(),
                  {"parallel.engine=zero", "hardware.gpus=4", "zero.stage=" + std::to_string(stage)});
  return settings;
}

using Held = std::map<std::pair<Tier, Category>, int64_t>;  // bytes

// What a program holds while its sections are played one after another.
class Holdings {
 public:
  explicit Holdings(const Training& t) : p_(t.program), is_live_(p_.storages.size()) {}

  Holdings& play(const std::vector<uint32_t>& sections) {
    peak_ = now_;
    for (uint32_t section : sections)
      for (uint32_t i = p_.sections[section].first_statement; i < p_.sections[section].last_statement; ++i)
        play(p_.statements[i]);
    return *this;
  }
  const Held& now() const { return now_; }
  // Of the last play(), each where it was highest.
  int64_t peak(Tier tier, Category category) { return peak_[{tier, category}]; }
  int64_t live(Tier tier, Category category) { return now_[{tier, category}]; }

 private:
  void play(const Statement& s) {
    if (s.kind == StatementKind::kFree) count(s.index, false);
    if (s.kind != StatementKind::kOp || shares_input_storage(p_.ops[s.index].kind)) return;
    for (TensorId o : p_.outputs(p_.ops[s.index])) count(p_.tensor(o).storage.value, true);
  }
  void count(uint32_t storage, bool lives) {
    if (is_live_[storage] == lives) return;
    is_live_[storage] = lives;
    const Storage& s = p_.storages[storage];
    int64_t& now = now_[{s.tier, s.category}];
    now += lives ? s.bytes.value : -s.bytes.value;
    int64_t& peak = peak_[{s.tier, s.category}];
    peak = std::max(peak, now);
  }

  const Program& p_;
  std::vector<bool> is_live_;
  Held now_, peak_;
};

// Bytes by category of what is live on the device after these sections were played.
inline std::map<Category, int64_t> live_after(const Training& t, const std::vector<uint32_t>& sections) {
  std::map<Category, int64_t> bytes;
  Holdings holdings(t);
  for (const auto& [key, held] : holdings.play(sections).now())
    if (key.first == Tier::kGpu) bytes[key.second] = held;
  return bytes;
}

inline int64_t elements_of(const Training& t) {
  return std::accumulate(t.units.begin(), t.units.end(), int64_t{0},
                         [](int64_t sum, const UnitTensors& u) { return sum + u.unit.elements; });
}

}  // namespace plimsoll::native
