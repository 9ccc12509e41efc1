#include "estimate/improvements.h"

#include <gtest/gtest.h>

#include <set>

#include "frameworks/pytorch/small_model.h"
#include "strategy/field.h"
#include "strategy/job_file.h"

namespace plimsoll {
namespace {

// A model of 60 MB whose step takes about 1.5 GiB: two layers and large logits.
Architecture small_llama() {
  using pytorch::member;
  return pytorch::small("llama", {member("vocab_size", 32000), member("hidden_size", 512),
                                  member("intermediate_size", 2048), member("num_attention_heads", 8)});
}

// Sixteenths of a GiB.
Gpu gpu_with(int64_t sixteenths) {
  return {.name = "small", .architecture = "sm_90", .usable_memory = kGiB * sixteenths / 16};
}

Job job_of(const std::vector<std::string>& settings) {
  Job job;
  for (const std::string& setting : settings) EXPECT_TRUE(apply_setting(job, setting)) << setting;
  return job;
}

struct Case {
  Architecture architecture = small_llama();
  Node node{.gpus = 8, .host_memory = kGiB * 256};
  Gpu gpu;
  std::vector<std::string> settings;

  Result<EstimateRun> run(const std::vector<std::string>& changed = {}) const {
    Job job = job_of(settings);
    for (const std::string& setting : changed) EXPECT_TRUE(apply_setting(job, setting)) << setting;
    return run_estimate({.architecture = architecture, .job = job, .gpu = gpu, .node = node});
  }
  Improvements improvements(bool tries_all = true, unsigned threads = 2) const {
    const Job job = job_of(settings);
    const EstimateRequest request{.architecture = architecture, .job = job, .gpu = gpu, .node = node};
    Result<EstimateRun> now = run_estimate(request);
    EXPECT_TRUE(now) << now.error().to_text();
    return find_improvements(request, *now, {.tries_all = tries_all, .threads = threads});
  }
};

void expect_same(const Case& c, const Estimate& before, const Change& change) {
  const Result<EstimateRun> after = c.run(change.settings);
  ASSERT_TRUE(after) << change.to_text();
  const Estimate& e = after->estimate;
  EXPECT_EQ(change.gpu, e.verdict.gpu) << change.to_text();
  EXPECT_EQ(change.host, e.verdict.host) << change.to_text();
  EXPECT_EQ(change.device_peak, e.device_peak()) << change.to_text();
  EXPECT_EQ(change.wanted, e.wanted()) << change.to_text();
  EXPECT_EQ(change.host_peak, e.host_peak) << change.to_text();
  EXPECT_EQ(change.saved, before.wanted() - e.wanted()) << change.to_text();
}

// Without any one of its settings it does less, or isn't possible.
void expect_minimal(const Case& c, const Change& cure) {
  for (size_t i = 0; i < cure.settings.size() && cure.settings.size() > 1; ++i) {
    if (cure.settings[i].starts_with("precision=")) continue;  // goes with the engine
    std::vector<std::string> fewer = cure.settings;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const Result<EstimateRun> run = c.run(fewer);
    if (!run) continue;
    EXPECT_GT(run->estimate.verdict.worst(), cure.worst())
        << cure.to_text() << " without " << cure.settings[i];
  }
}

// What is promised of a change is what the page of the changed job says, whatever the size of the GPU.
TEST(Improvements, SayWhatThePageOfTheChangedJobSays) {
  std::set<Fit> seen;
  int cures = 0;
  for (const char* engine : {"parallel.engine=none", "parallel.engine=ddp", "parallel.engine=fsdp2"}) {
    const std::string gpus = std::string(engine) == "parallel.engine=none" ? "1" : "8";
    for (int64_t sixteenths = 12; sixteenths <= 36; sixteenths += 3) {
      const Case c{.gpu = gpu_with(sixteenths),
                   .settings = {engine, "hardware.gpus=" + gpus, "precision=fp32", "batch.sequence=2048"}};
      const Result<EstimateRun> now = c.run();
      ASSERT_TRUE(now) << now.error().to_text();
      const Improvements found = c.improvements();
      for (const Change& change : found.changes) {
        expect_same(c, now->estimate, change);
        seen.insert(change.gpu);
      }
      if (!found.cure) continue;
      ++cures;
      expect_same(c, now->estimate, *found.cure);
      EXPECT_LT(found.cure->worst(), now->estimate.verdict.worst());
      expect_minimal(c, *found.cure);
    }
  }
  EXPECT_EQ(seen, (std::set{Fit::kFits, Fit::kAtRisk, Fit::kOutOfMemory}));
  EXPECT_GT(cures, 3);
}

TEST(Improvements, DoNotDependOnTheNumberOfThreads) {
  const Case c{.gpu = gpu_with(15), .settings = {"batch.sequence=2048", "precision=fp32"}};
  const Improvements one = c.improvements(true, 1), four = c.improvements(true, 4);
  ASSERT_EQ(one.changes.size(), four.changes.size());
  for (size_t i = 0; i < one.changes.size(); ++i) EXPECT_EQ(one.changes[i].wanted, four.changes[i].wanted);
  ASSERT_EQ(one.cure.has_value(), four.cure.has_value());
  if (one.cure) {
    EXPECT_EQ(one.cure->settings, four.cure->settings);
  }
}

TEST(Improvements, WhatSavesNothingWorthALineIsListedApart) {
  const Case c{.gpu = gpu_with(64), .settings = {"batch.sequence=2048", "precision=fp32"}};
  const Improvements found = c.improvements();
  EXPECT_FALSE(found.changes.empty());
  EXPECT_FALSE(found.without_effect.empty());
  for (const Change& change : found.changes) EXPECT_GE(change.saved, kLeastSaving) << change.to_text();
}

// A setting that only the change makes meaningless is taken back with it, rather than named as what stands in
// the way.
TEST(Improvements, TakeBackWhatTheyMakeMeaningless) {
  struct Dependent {
    std::vector<std::string> settings;
    std::string change, reset;
  };
  const std::vector<Dependent> all = {
      {{"hardware.gpus=2", "parallel.engine=fsdp2", "fsdp2.cpu_offload=true", "fsdp2.pin_memory=false"},
       "fsdp2.cpu_offload=false",
       "fsdp2.pin_memory=default"},
      {{"recompute.mode=selective", "recompute.kept_ops=mm"},
       "recompute.mode=full",
       reset_setting(*find_field("recompute.kept_ops"))},
      {{"hardware.gpus=2", "parallel.engine=ddp", "ddp.bucket_cap_mb=10"},
       "parallel.engine=fsdp2",
       "ddp.bucket_cap_mb=default"}};
  for (const Dependent& d : all) {
    const Case c{.node = {.gpus = 8, .host_memory = kGiB * 2}, .gpu = gpu_with(4), .settings = d.settings};
    const Improvements found = c.improvements();
    const auto is_changed = [&](const Change& change) {
      return std::ranges::count(change.settings, d.change) > 0 &&
             std::ranges::count(change.settings, d.reset) > 0;
    };
    EXPECT_TRUE(std::ranges::any_of(found.changes, is_changed)) << d.change;
    for (const std::string& refused : found.unsupported)
      EXPECT_EQ(refused.find("has no effect"), std::string::npos) << refused;
  }
}

}  // namespace
}  // namespace plimsoll
