#include "strategy/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "strategy/allocator_configuration.h"
#include "strategy/case.h"
#include "strategy/errors.h"
#include "strategy/field.h"
#include "strategy/names.h"
#include "strategy/resolve_megatron.h"
#include "strategy/usage.h"

namespace plimsoll {
namespace {

// Jobs that were built by hand have not passed through the reader's bounds.
Errors out_of_range(const Job& job) {
  Errors errors;
  const Job fresh;
  Job scratch;
  for (const Field& field : job_fields()) {
    const auto value = field.get(job);
    if (!value || value == field.get(fresh)) continue;
    if (auto done = set_field(scratch, field, *value, {}); !done) errors.push_back(std::move(done).error());
  }
  return errors;
}

bool is_given(const Field& field, const Job& job, const Job& fresh) {
  return job.given.contains(std::string(field.text.path)) || field.get(job) != field.get(fresh);
}

struct UnusedField {
  const Field* field;
  std::string needs;
};

// Whose value is another than the default and can't tell.
std::vector<UnusedField> all_unused(const Case& c) {
  const Job fresh;
  std::vector<UnusedField> all;
  for (const Field& field : job_fields()) {
    if (field.get(c.job) == field.get(fresh)) continue;
    auto unused = why_unused(field.text.path, c.resolved, c.architecture);
    if (unused && !unused->is_harmless) all.push_back({.field = &field, .needs = std::move(unused->needs)});
  }
  return all;
}

void check_usage(const Case& c, Errors& errors) {
  for (UnusedField& unused : all_unused(c))
    add(errors,
        {.field = std::string(unused.field->text.path),
         .message = fmt::format("{} has no effect in this job", to_plain_text(*unused.field->get(c.job))),
         .expected = std::move(unused.needs)});
}

// --- assumed ---

bool is_worth_assuming(const Field& field, const ResolvedJob& resolved, const Architecture& architecture) {
  if (field.text.reason.empty() || why_unused(field.text.path, resolved, architecture)) return false;
  return field.section() != "parallel" || resolved.mesh.world > 1;
}

std::string default_value_text(const Field& field, const Job& fresh) {
  const auto value = field.get(fresh);
  return value ? to_plain_text(*value) : std::string(field.text.default_text);
}

// `resolved.assumed` holds what was decided; adds the fixed defaults and sorts by the fields' order.
std::vector<Assumption> all_assumptions(const Job& job, const ResolvedJob& resolved,
                                        const Architecture& architecture) {
  std::map<std::string_view, const Assumption*> decided;
  for (const Assumption& assumption : resolved.assumed) decided[assumption.field] = &assumption;
  const Job fresh;
  std::vector<Assumption> all;
  for (const Field& field : job_fields()) {
    const std::string_view path = field.text.path;
    if (const auto found = decided.find(path); found != decided.end())
      all.push_back(*found->second);
    else if (!is_given(field, job, fresh) && is_worth_assuming(field, resolved, architecture))
      all.push_back({.field = std::string(path),
                     .value = default_value_text(field, fresh),
                     .reason = std::string(field.text.reason)});
  }
  return all;
}

// --- notes ---

using Notes = std::vector<std::string>;

void note_unused(const Case& c, Notes& notes) {
  const Job fresh;
  std::vector<std::pair<std::string, std::vector<std::string_view>>> by_need;  // in the fields' order
  for (const Field& field : job_fields()) {
    if (!is_given(field, c.job, fresh)) continue;
    const auto unused = why_unused(field.text.path, c.resolved, c.architecture);
    if (!unused) continue;
    const auto same = std::ranges::find(by_need, unused->needs, [](const auto& n) { return n.first; });
    if (same == by_need.end())
      by_need.push_back({unused->needs, {field.text.path}});
    else
      same->second.push_back(field.text.path);
  }
  for (const auto& [needs, fields] : by_need)
    notes.push_back(
        fields.size() == 1
            ? fmt::format("{} has no effect here: it needs {}", fields.front(), needs)
            : fmt::format("{} have no effect here: they need {}", fmt::join(fields, ", "), needs));
}

void note_nodes(const Case& c, Notes& notes) {
  const std::optional<int64_t>& given = c.job.hardware.gpus_per_node;
  if (given && *given > c.job.hardware.gpus)
    notes.push_back(
        fmt::format("hardware.gpus_per_node {} is more than the {} GPUs of the job: all are in one node",
                    *given, c.job.hardware.gpus));
}

void note_sequence(const Case& c, Notes& notes) {
  const int64_t limit = c.architecture.max_position;
  if (c.architecture.position == PositionKind::kLearned || limit == 0 || c.resolved.batch.sequence <= limit)
    return;
  notes.push_back(fmt::format("batch.sequence {} is longer than the {} positions {} was configured for",
                              c.resolved.batch.sequence, limit, c.architecture.name));
}

void note_recompute(const Case& c, Notes& notes) {
  const Recompute& recompute = c.resolved.recompute;
  const auto layers = static_cast<int64_t>(c.architecture.layers.size());
  if (recompute.kind == RecomputeKind::kEveryNth && recompute.every_nth >= layers)
    notes.push_back(
        fmt::format("recompute.mode {} reaches only the first of {} blocks", name_of(recompute), layers));
  const bool is_causal = c.architecture.task == Task::kCausalLm;
  if (recompute.kind != RecomputeKind::kNone && c.resolved.loop.use_cache != UseCache::kFalse && is_causal)
    notes.push_back("loop.use_cache: Transformers turns the cache off while recompute is on");
}

// A rank holds whole rows of dim 0; where those don't divide, the first ranks hold more than their share.
void note_padding(const Case& c, Notes& notes) {
  constexpr int64_t kWorthANote = 50;  // one part in so many
  const int64_t shards = c.resolved.mesh.shard;
  if (c.resolved.engine != DataParallelEngine::kFsdp2) return;
  const int64_t held = held_elements(c.architecture, shards), all = held_elements(c.architecture, 1);
  const Bytes element{bytes_of(parameter_dtype(c.resolved.precision))};
  const Bytes share = element * divide_up(all, shards), more = element * held - share;
  if (more * kWorthANote < share) return;
  notes.push_back(
      fmt::format("fsdp2 divides rows (dim 0, experts first) over {} shards and pads what doesn't divide: "
                  "the fullest rank "
                  "holds {} of parameters, {} more than an even share; gradients and optimizer states alike",
                  shards, to_gib_text(element * held), to_gib_text(more)));
}

// Packages that change from release to release: which one is played.
void note_loss(const Case& c, Notes& notes) {
  const LossKind loss = c.resolved.loss.kind;
  if (loss == LossKind::kChunked)
    notes.push_back("loss.path chunked is played as TRL 1.14 computes loss_type chunked_nll");
  if (loss == LossKind::kFusedLinear)
    notes.push_back(
        "loss.path fused-linear is played as liger-kernel 0.8.5 computes it; no other kernel of Liger is");
}

void note_kernels(const Case& c, Notes& notes) {
  const DType dtype = c.resolved.matmul_dtype();
  if (dtype == DType::kBFloat16 && c.gpu.compute_capability.value_or(kAmpere) < kAmpere)
    notes.push_back(fmt::format("{} (sm_{}) has no bf16 units: bf16 is emulated there and slow", c.gpu.name,
                                *c.gpu.compute_capability));
  if (!has_experts(c.architecture)) return;
  if (dtype != DType::kBFloat16)
    notes.push_back(fmt::format("grouped_mm in {} has not been checked against a real run", name_of(dtype)));
  // zeros_like_input in program/rules_indexing.cc
  notes.push_back(
      "the backward of picking tokens for experts is counted out of place, as traced runs do it: on a device "
      "it takes up to one buffer of tokens x experts per token x hidden less");
}

void note_allocator(const Case& c, Notes& notes) {
  const auto settings = parse_allocator_configuration(c.resolved.allocator.configuration);
  if (!settings) return;
  for (const AllocatorSetting& setting : *settings)
    if (!is_known_allocator_key(setting.key))
      notes.push_back(
          fmt::format("allocator.configuration: {} is not known here and not applied", setting.key));
}

Notes all_notes(const Case& c) {
  Notes notes;
  note_unused(c, notes);
  note_nodes(c, notes);
  note_sequence(c, notes);
  note_recompute(c, notes);
  note_padding(c, notes);
  note_loss(c, notes);
  note_kernels(c, notes);
  note_allocator(c, notes);
  return notes;
}

}  // namespace

int64_t held_elements(const Architecture& architecture, int64_t shards) {
  int64_t held = 0;
  for (const ParameterTensor& p : architecture.parameters) {
    if (p.shape.empty() || p.shape.front() == 0) continue;
    const int64_t rows = p.shape.front();
    held += divide_up(rows, shards) * (p.elements() / rows);
  }
  return held;
}

std::vector<Error> contradictions(const Job& job, const ResolvedJob& resolved,
                                  const Architecture& architecture, const GpuFacts& gpu) {
  const Case c{.job = job, .resolved = resolved, .architecture = architecture, .gpu = gpu};
  Errors errors;
  check_mesh(c, errors);
  check_engine(c, errors);
  check_batch(c, errors);
  check_step(c, errors);
  check_blocks(c, errors);
  check_native(c, errors);
  check_torchtitan(c, errors);
  check_usage(c, errors);
  return errors;
}

std::vector<std::string> resets_of_unused(const Job& job, const Architecture& architecture,
                                          const GpuFacts& gpu) {
  const ResolvedJob resolved = with_defaults(job, architecture, gpu);
  std::vector<std::string> settings;
  for (const UnusedField& unused :
       all_unused({.job = job, .resolved = resolved, .architecture = architecture, .gpu = gpu}))
    settings.push_back(reset_setting(*unused.field));
  return settings;
}

Result<ResolvedJob> resolve(const Job& job, const Architecture& architecture, const GpuFacts& gpu) {
  if (job.megatron) return resolve_megatron(job, architecture, gpu);
  if (auto errors = out_of_range(job); !errors.empty())
    return fail(combined(std::move(errors), "values of the job are out of range"));
  ResolvedJob resolved = with_defaults(job, architecture, gpu);
  if (auto errors = contradictions(job, resolved, architecture, gpu); !errors.empty())
    return fail(combined(std::move(errors), "contradictions in the job"));
  resolved.assumed = all_assumptions(job, resolved, architecture);
  resolved.notes = all_notes({.job = job, .resolved = resolved, .architecture = architecture, .gpu = gpu});
  return resolved;
}

}  // namespace plimsoll
