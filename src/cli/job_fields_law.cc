// No field of the job file passes silently: whatever is set, in whatever job, the program is another one, or
// a figure of the estimate is, or a note or an error says why not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/job_options.h"
#include "estimate/estimate.h"
#include "program/text.h"
#include "strategy/field.h"
#include "strategy/job_file.h"

namespace plimsoll {
namespace {

// Fields, or values of them, that may truly change nothing, and why no note is needed.
const std::map<std::string, std::string> kAllowed = {
    {"attention.sdpa_backend", "a restriction to the kernel that is taken anyway"},
    {"loop.use_cache", "config: what the configuration says may be what is set"},
    {"hardware.gpus_per_node", "no more than the job has can share a host"},
    {"precision=amp-bf16", "autocast has nothing to cast where parameters are gathered in its dtype"},
    {"recompute.kept_ops=mm", "the other ops of the default may not occur"},
    {"parallel.data=1", "what follows from hardware.gpus"},
    {"model.task", "names what the model is; everything else is an error"},
};

struct TestJob {
  std::string model;
  std::vector<std::string> settings;
};

void PrintTo(const TestJob& test, std::ostream* out) { *out << test.model; }

const std::vector<TestJob> kJobs = {
    {"qwen3-0.6b", {"hardware.gpu=h100-80gb"}},
    {"gpt2", {"hardware.gpu=a100-80gb", "hardware.gpus=4", "parallel.engine=ddp", "batch.accumulation=2"}},
    {"llama-3.2-1b",
     {"hardware.gpu=h100-80gb", "hardware.gpus=8", "fsdp2.cpu_offload=true", "batch.accumulation=2"}},
    {"qwen1.5-moe-a2.7b", {"hardware.gpu=h100-80gb", "hardware.gpus=16", "fsdp2.replicate=2"}},
    {"gemma-2-2b", {"hardware.gpu=h100-80gb", "recompute.mode=selective", "loss.path=chunked"}},
    {"bert-base", {"hardware.gpu=l4", "hardware.gpus=2", "parallel.engine=ddp", "recompute.mode=full"}},
};

// A text for every kind of value; those of texts are listed.
std::vector<std::string> values_of(const Field& field) {
  static const std::map<std::string_view, std::vector<std::string>> kTexts = {
      {"hardware.gpu", {"a100-40gb"}},
      {"loop.trainable", {"attn", "norm|ln"}},
      {"allocator.configuration",
       {"max_split_size_mb:64", "expandable_segments:True", "backend:native", "unknown_key:1",
        "pinned_use_background_threads:True"}},
      {"recompute.kept_ops", {"mm", "gelu", "add"}}};
  if (const auto found = kTexts.find(field.text.path); found != kTexts.end()) return found->second;
  switch (field.kind) {
    case FieldKind::kBoolean:
      return {"true", "false"};
    case FieldKind::kInteger:
    case FieldKind::kNumber:
      return {"1", "2", "3", "100"};
    case FieldKind::kChoice: {
      std::vector<std::string> values = field.choices;
      for (std::string& value : values)
        if (const size_t n = value.find('N'); n != std::string::npos) value.replace(n, 1, "2");
      return values;
    }
    default:
      return {};
  }
}

struct Answer {
  Job job;
  std::string program, figures;
  std::vector<std::string> notes;
  std::vector<Assumption> assumed;
};

std::string figures_of(const Estimate& e) {
  std::string text = fmt::format("{} {}", e.capacity.value, e.host_capacity.value);
  for (const PhaseEstimate& p : e.phases)
    text +=
        fmt::format(" {} {} {} {}", name_of(p.kind), p.use.live.value, p.use.device.value, p.use.host.value);
  return text;
}

Result<Answer> answer_to(const TestJob& test, const std::string& setting) {
  JobOptions options;
  options.model = test.model;
  options.settings = {"model.layers=2", "batch.sequence=64"};
  options.settings.insert(options.settings.end(), test.settings.begin(), test.settings.end());
  if (!setting.empty()) options.settings.push_back(setting);
  PLIMSOLL_TRY(loaded, load_job(options));
  PLIMSOLL_TRY(run, run_estimate({.architecture = loaded.architecture,
                                  .job = loaded.job,
                                  .gpu = loaded.gpu,
                                  .node = loaded.cluster.node}));
  return Answer{.job = loaded.job,
                .program = to_text(run.program),
                .figures = figures_of(run.estimate),
                .notes = run.estimate.notes,
                .assumed = run.estimate.job.assumed};
}

bool is_assumed(const Answer& answer, std::string_view path, std::string_view value) {
  return std::ranges::any_of(answer.assumed,
                             [&](const Assumption& a) { return a.field == path && a.value == value; });
}

// The value that the job has already.
bool is_given(const Answer& answer, const Field& field, std::string_view value) {
  const std::optional<FieldValue> given = field.get(answer.job);
  return given && to_plain_text(*given) == value;
}

class JobFields : public testing::TestWithParam<TestJob> {};

TEST_P(JobFields, NoneIsSilent) {
  const TestJob& test = GetParam();
  const Result<Answer> before = answer_to(test, "");
  ASSERT_TRUE(before) << before.error().to_text();
  for (const Field& field : job_fields()) {
    const std::string path(field.text.path);
    for (const std::string& value : values_of(field)) {
      const std::string setting = path + "=" + value;
      if (is_given(*before, field, value) || is_assumed(*before, path, value)) continue;
      if (kAllowed.contains(path) || kAllowed.contains(setting)) continue;
      const Result<Answer> after = answer_to(test, setting);
      if (!after) {
        EXPECT_FALSE(after.error().is_internal) << setting << ": " << after.error().to_text();
        continue;
      }
      EXPECT_TRUE(after->program != before->program || after->figures != before->figures ||
                  after->notes != before->notes)
          << setting << " changes nothing and nothing says so";
    }
  }
}

std::string name_of_job(const testing::TestParamInfo<TestJob>& info) {
  std::string name = info.param.model;
  std::ranges::replace_if(
      name, [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Jobs, JobFields, testing::ValuesIn(kJobs), name_of_job);

}  // namespace
}  // namespace plimsoll
