// Laws of the job file: writing and reading are inverse, on every job that the table can express.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "strategy/field.h"
#include "strategy/job_file.h"
#include "strategy/names.h"
#include "strategy/path_match.h"
#include "strategy/resolve.h"

namespace plimsoll {
namespace {

// Any text without what TOML can't hold (it is UTF-8), quotes, breaks and control letters included.
rc::Gen<std::string> any_text() {
  return rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)));
}

std::string any_choice(const Field& field) {
  std::string name = *rc::gen::elementOf(field.choices);
  if (name == "every-N") return "every-" + std::to_string(*rc::gen::inRange<int64_t>(2, kMaxEveryNth + 1));
  if (name == "every-N-reentrant") return "every-7-reentrant";
  return name;
}

const std::vector<std::string_view> kPatterns = {"q_proj|v_proj", "^model\\.layers\\.[0-9]+", "norm",
                                                 "(?!lm)[\"'#=]?"};

FieldValue any_value(const Field& field) {
  switch (field.kind) {
    case FieldKind::kBoolean:
      return *rc::gen::arbitrary<bool>();
    case FieldKind::kInteger:
      return *rc::gen::inRange<int64_t>(static_cast<int64_t>(field.range->lowest),
                                        static_cast<int64_t>(field.range->highest) + 1);
    case FieldKind::kNumber:
      return std::ldexp(*rc::gen::inRange<int>(1, 1 << 20), *rc::gen::inRange(-40, 1));
    case FieldKind::kChoice:
      return any_choice(field);
    case FieldKind::kText:
      if (!field.form.empty()) return std::string(*rc::gen::elementOf(kPatterns));
      return *any_text();
    case FieldKind::kTextList:
      return *rc::gen::container<std::vector<std::string>>(any_text());
  }
  return false;
}

Job any_job() {
  Job job;
  for (const Field& field : job_fields()) {
    if (*rc::gen::inRange(0, 3) != 0) continue;
    RC_ASSERT(set_field(job, field, any_value(field), {}).has_value());
  }
  if (*rc::gen::arbitrary<bool>()) (void)apply_setting(job, "model.overrides.key", *any_text(), "--set");
  return job;
}

RC_GTEST_PROP(JobFileLaw, WrittenJobsReadTheSame, ()) {
  const Job job = any_job();
  const std::string text = to_toml(job);
  const auto again = parse_job(text, "again.toml");
  if (!again) RC_FAIL(again.error().to_text() + "\n" + text);
  if (!(*again == job)) RC_FAIL(text);
  RC_ASSERT(to_toml(*again) == text);
}

RC_GTEST_PROP(JobFileLaw, SettingsAreTheFileInPieces, ()) {
  const Job job = any_job();
  Job rebuilt;
  for (const Field& field : job_fields()) {
    const bool is_splittable = field.kind != FieldKind::kTextList;
    const auto value = field.get(job);
    if (!value || !is_splittable || !job.given.contains(std::string(field.text.path))) continue;
    RC_ASSERT(apply_setting(rebuilt, field.text.path, to_plain_text(*value), "--set").has_value());
    RC_ASSERT(field.get(rebuilt) == value);
  }
}

RC_GTEST_PROP(JobFileLaw, AnyTextGivesAJobOrAnError, (const std::string& text)) {
  const auto job = parse_job(text, "any.toml");
  if (job) RC_ASSERT(parse_job(to_toml(*job), "again.toml") == *job);
  Job other;
  (void)apply_setting(other, text);
  (void)near_paths(text, {"batch.sequence", "precision"});
}

// A job without contradictions, with some of its batch left to resolve().
Job plausible_job() {
  const int64_t replicate = *rc::gen::inRange<int64_t>(1, 9), shard = *rc::gen::inRange<int64_t>(2, 65);
  const int64_t data = replicate * shard;
  const int64_t micro_batch = *rc::gen::inRange<int64_t>(1, 33),
                accumulation = *rc::gen::inRange<int64_t>(1, 33);
  Job job{.hardware = {.gpus = data}, .fsdp2 = {.replicate = replicate}};
  if (*rc::gen::arbitrary<bool>()) job.batch.micro_batch = micro_batch;
  if (*rc::gen::arbitrary<bool>()) job.batch.accumulation = accumulation;
  if (*rc::gen::arbitrary<bool>())
    job.batch.global_batch = data * job.batch.micro_batch.value_or(1) * job.batch.accumulation.value_or(1);
  return job;
}

Architecture any_architecture() {
  Architecture architecture{.name = "any", .family = "llama", .max_position = 4096};
  architecture.layers.resize(2);
  architecture.parameters.push_back({.name = "weight", .shape = {1}});
  return architecture;
}

RC_GTEST_PROP(ResolveLaw, FactorsMultiplyToTheWhole, ()) {
  const Job job = plausible_job();
  const auto resolved =
      resolve(job, any_architecture(), {.gpus_per_node = *rc::gen::inRange<int64_t>(1, 17)});
  if (!resolved) RC_FAIL(resolved.error().to_text());
  const Mesh& mesh = resolved->mesh;
  RC_ASSERT(mesh.world == job.hardware.gpus &&
            mesh.world == mesh.data * mesh.tensor * mesh.pipeline * mesh.context);
  RC_ASSERT(mesh.data == mesh.replicate * mesh.shard);
  RC_ASSERT(mesh.world % mesh.gpus_per_node == 0);
  const Batch& batch = resolved->batch;
  RC_ASSERT(batch.global_batch == batch.micro_batch * batch.accumulation * mesh.data);
}

// Writing every assumption down leaves nothing to assume and changes nothing else.
RC_GTEST_PROP(ResolveLaw, AssumptionsMayBeWrittenDown, ()) {
  const Job job = plausible_job();
  const auto resolved = resolve(job, any_architecture(), {});
  if (!resolved) RC_FAIL(resolved.error().to_text());
  Job written = job;
  for (const Assumption& assumption : resolved->assumed) {
    if (assumption.value == "none" && assumption.field == "loop.clip_max_norm") continue;
    if (assumption.value == "all") continue;
    if (const auto done = apply_setting(written, assumption.field, assumption.value, "assumed"); !done)
      RC_FAIL(done.error().to_text());
  }
  const auto again = resolve(written, any_architecture(), {});
  if (!again) RC_FAIL(again.error().to_text());
  RC_ASSERT(again->mesh == resolved->mesh && again->batch == resolved->batch &&
            again->fsdp2 == resolved->fsdp2);
  RC_ASSERT(again->precision == resolved->precision && again->engine == resolved->engine);
  RC_ASSERT(again->optimizer == resolved->optimizer && again->loop == resolved->loop);
}

RC_GTEST_PROP(ResolveLaw, AnyJobResolvesOrSaysWhy, ()) {
  const Job job = any_job();
  const auto resolved = resolve(job, any_architecture(), {});
  if (!resolved) {
    RC_ASSERT(!resolved.error().is_internal && !resolved.error().message.empty());
    return;
  }
  for (const Assumption& assumption : resolved->assumed) RC_ASSERT(!job.given.contains(assumption.field));
}

RC_GTEST_PROP(NamesLaw, RecomputeNamesAreReadAsWritten, ()) {
  const Recompute recompute = {.kind = RecomputeKind::kEveryNth,
                               .is_reentrant = *rc::gen::arbitrary<bool>(),
                               .every_nth = *rc::gen::inRange<int64_t>(2, kMaxEveryNth + 1)};
  RC_ASSERT(recompute_from_name(name_of(recompute)) == recompute);
}

}  // namespace
}  // namespace plimsoll
