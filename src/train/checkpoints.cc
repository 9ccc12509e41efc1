#include "train/checkpoints.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/list_folder.h"
#include "base/read_file.h"
#include "frameworks/native/optimizers.h"
#include "importers/hf_config/json_tree.h"
#include "strategy/field.h"
#include "strategy/job_file.h"
#include "strategy/names.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoint_pieces.h"
#include "train/checkpoint_reader.h"
#include "train/checkpoint_writer.h"
#include "train/checksum.h"
#include "train/model_config.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(kPrefix.size());
  int64_t step = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool is_step = problem == std::errc() && end == digits.data() + digits.size() && step > 0;
  return is_step ? std::optional(step) : std::nullopt;
}

std::vector<std::string> state_names(const ResolvedJob& job) {
  const auto& names = native::optimizer_row(job.optimizer.kind).states;
  return {names.begin(), names.end()};
}

std::string fingerprint_text(uint64_t fingerprint) { return fmt::format("{:016x}", fingerprint); }

tl::unexpected<Error> other(const fs::path& folder, const std::string& key, std::string message,
                            std::string expected) {
  return fail({.position = {.file = (folder / kStateFile).string(), .key = key},
               .message = std::move(message),
               .expected = std::move(expected),
               .hint = fmt::format("to begin anew with its weights: train.weights = \"{}\" and another "
                                   "train.checkpoints",
                                   folder.string())});
}

// What isn't as it was saved.
Error damaged(Error error) {
  if (error.hint.empty()) error.hint = "remove this checkpoint's folder to go on from the one before";
  return error;
}

// It is of the step that the folder's name says.
Result<CheckpointState> read_state(const fs::path& folder) {
  Result<CheckpointState> state = read_checkpoint_state(folder);
  if (!state) return fail(damaged(state.error()));
  const std::string name = checkpoint_name(state->step);
  if (step_of(folder.filename().string()) == state->step) return state;
  return fail(damaged({.position = {.file = (folder / kStateFile).string(), .key = "step"},
                       .message = fmt::format("is {}, but the folder is not {}", state->step, name),
                       .expected = "the state of the checkpoint in this folder"}));
}

Result<std::string> read_config(const fs::path& file, const CheckpointState& state) {
  Result<std::string> text =
      read_file(file, {.most_bytes = kMaxConfigBytes, .expected = "a model's config.json"});
  if (!text) return fail(damaged(text.error()));
  const std::string sum = checksum_text(checksum(std::as_bytes(std::span(*text))));
  if (!state.has_checksums() || sum == state.config_checksum) return text;
  return fail(damaged({.position = {.file = file.string()},
                       .message = "isn't what was saved: its checksum is another one",
                       .expected = "the bytes that were written"}));
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:06}", kPrefix, step); }

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const fs::path& path : list_folder(folder))
    if (const std::optional<int64_t> step = step_of(path.filename().string()))
      found.emplace_back(*step, path);
  std::ranges::sort(found);
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

Checkpoints::Checkpoints(CheckpointsOptions options)
    : options_(std::move(options)), folder_(options_.job.run.checkpoints) {}

Result<Checkpoints> Checkpoints::open(CheckpointsOptions options) {
  Checkpoints checkpoints(std::move(options));
  if (checkpoints.folder_.empty()) return checkpoints;
  const std::vector<fs::path> found = list_checkpoints(checkpoints.folder_);
  if (found.empty()) return checkpoints;
  if (!checkpoints.options_.job.run.resume)
    return fail({.position = {.file = checkpoints.folder_.string(), .key = "train.checkpoints"},
                 .message = fmt::format("holds {} already, and train.resume is false",
                                        found.back().filename().string()),
                 .expected = "a folder without checkpoints",
                 .hint = "name another folder, or go on with train.resume = true"});
  PLIMSOLL_TRY(state, read_state(found.back()));
  checkpoints.last_ = found.back();
  checkpoints.from_ = {.folder = found.back(), .state = std::move(state)};
  PLIMSOLL_CHECK(checkpoints.check_saved());
  return checkpoints;
}

std::string Checkpoints::found_text() const {
  if (!from_) return "none";
  const std::string state = checkpoint_state_text(from_->state);
  return fmt::format("{} (state {})", from_->folder.filename().string(),
                     checksum_text(checksum(std::as_bytes(std::span(state)))));
}

// What is known before data and weights are opened.
Result<void> Checkpoints::check_saved() {
  const auto& [folder, state] = *from_;
  const ResolvedJob& job = options_.job;
  const fs::path config = folder / "config.json";
  PLIMSOLL_TRY(saved, read_config(config, state));
  PLIMSOLL_CHECK(check_same_model(saved, config.string(), options_.model_config));
  const std::string optimizer = name_of(job.optimizer);
  if (state.optimizer != optimizer)
    return other(folder, "optimizer", fmt::format("is {}, the job has {}", state.optimizer, optimizer),
                 state.optimizer);
  if (state.parameters != options_.architecture.parameter_count())
    return other(folder, "parameters", fmt::format("is {}", state.parameters),
                 fmt::format("{}, as the job's model has", options_.architecture.parameter_count()));
  if (state.seed != job.run.seed)
    return other(folder, "seed", fmt::format("is {}, train.seed is {}", state.seed, job.run.seed),
                 "the same seed, since the order of the data is by it");
  if (state.global_batch != job.batch.global_batch)
    notes_.push_back(
        fmt::format("{} was written with a global batch of {}, now it is {}: the data go on where "
                    "they were, losses will not be those of a run without a break",
                    folder.string(), state.global_batch, job.batch.global_batch));
  note_settings(state);
  if (!state.has_checksums())
    notes_.push_back(
        fmt::format("{} was written by an older version, without checksums of {} and config.json: "
                    "damage in them can't be told",
                    folder.string(), kStateFile));
  if (state.precision != name_of(job.precision))
    notes_.push_back(fmt::format("{} was written in {}, the run goes on in {}", folder.string(),
                                 state.precision, name_of(job.precision)));
  return {};
}

// Of the optimizer's step: the losses go another way with them. What the schedule says may change between
// runs, and a job file of another version may not be read any more.
void Checkpoints::note_settings(const CheckpointState& state) {
  const Result<Job> saved = parse_job(state.job, "state.json"), now = parse_job(options_.job_text, "job");
  if (!saved || !now) return;
  constexpr std::array<std::string_view, 8> kOfTheStep = {
      "train.beta1",    "train.beta2",      "train.epsilon",        "train.weight_decay",
      "train.momentum", "train.decay_rate", "train.clip_threshold", "loop.clip_max_norm"};
  for (const std::string_view path : kOfTheStep) {
    const Field* const field = find_field(path);
    const std::optional<FieldValue> before = field->get(*saved), after = field->get(*now);
    if (before == after) continue;
    const auto text = [](const std::optional<FieldValue>& v) { return v ? to_plain_text(*v) : "unset"; };
    notes_.push_back(fmt::format("{} was {}, the run goes on with {}", path, text(before), text(after)));
  }
}

Result<void> Checkpoints::check_data(const Batches& batches) {
  const std::string print = fingerprint_text(batches.corpus().fingerprint());
  if (from_->state.data_fingerprint == print) return {};
  return other(from_->folder, "data_fingerprint",
               fmt::format("is {}: the run was on other data, or on other lengths of sequences",
                           from_->state.data_fingerprint),
               fmt::format("{}, of data.path and batch.sequence", print));
}

Result<void> Checkpoints::prepare_folder() const {
  const bool is_done = from_ && from_->state.step >= options_.job.run.steps;
  if (folder_.empty() || is_done) return {};
  Result<void> done = check_is_writable(folder_, rank());
  if (done) return {};
  Error error = done.error();
  error.position.key = "train.checkpoints";
  return fail(std::move(error));
}

Result<void> Checkpoints::restore(runtime::TrainingRun& run, Batches& batches) {
  if (!from_) return {};
  Result<void> done = check_data(batches);
  if (done) done = restore_states(run);
  PLIMSOLL_CHECK(agree_on(options_.communicator, done));
  run.set_steps_done(from_->state.step);
  batches.seek(from_->state.step, from_->state.samples);
  return {};
}

Result<void> Checkpoints::restore_states(runtime::TrainingRun& run) {
  const CheckpointState& state = from_->state;
  if (const std::vector<std::string> names = state_names(options_.job); names != state.states)
    return other(from_->folder, "states", fmt::format("is {}", fmt::join(state.states, ", ")),
                 fmt::format("{}", fmt::join(names, ", ")));
  const auto name_of_parameter = [&](size_t i) { return options_.architecture.parameters[i].name; };
  std::vector<SavedArray> expected;
  for (const ParameterTensor& p : options_.architecture.parameters)
    expected.push_back({.state = std::string(kWeights), .parameter = p.name, .elements = p.elements()});
  for (const native::UnitTensors& u : run.training().units)
    for (const auto& [id, layout] : u.states)
      for (size_t i = 0; i < layout.tensors.size(); ++i)
        expected.push_back({.state = std::string(layout.names[i]),
                            .parameter = name_of_parameter(layout.tensors[i].parameter),
                            .elements = layout.tensors[i].elements});
  PLIMSOLL_TRY(reader, CheckpointReader::open(from_->folder, state, expected));
  PLIMSOLL_CHECK(reader.check_sums(rank(), ranks()));
  for (const native::UnitTensors& u : run.training().units)
    for (const auto& [id, layout] : u.states) {
      PLIMSOLL_TRY(array, run.executor().load(id));
      auto* const elements = static_cast<float*>(array.mutable_data_ptr());
      for (const Piece& piece : pieces_held({layout.tensors, layout.elements}, array.numel(), rank()))
        PLIMSOLL_CHECK(reader.read(std::string(layout.names[piece.tensor]),
                                   name_of_parameter(piece.parameter), piece.begin,
                                   {elements + piece.place, static_cast<size_t>(piece.elements)}));
      PLIMSOLL_CHECK(run.executor().save(id, array));
    }
  return {};
}

Result<void> Checkpoints::after_step(runtime::TrainingRun& run, const Batches& batches, double loss) {
  if (folder_.empty()) return {};
  const RunSettings& settings = options_.job.run;
  const int64_t done = run.steps_done();
  const bool is_due = settings.checkpoint_every > 0 && done % settings.checkpoint_every == 0;
  if (!is_due && done < settings.steps) return {};
  Result<void> saved = save(run, batches, loss);
  is_save_wrong_ = !saved;
  return saved;
}

Result<void> Checkpoints::save(runtime::TrainingRun& run, const Batches& batches, double loss) {
  const ResolvedJob& job = options_.job;
  const int64_t step = run.steps_done();
  PLIMSOLL_CHECK(write_checkpoint(
      run, {.folder = folder_ / checkpoint_name(step),
            .architecture = options_.architecture,
            .model_config = options_.model_config,
            .state = {.step = step,
                      .samples = batches.samples_before(step),
                      .data_fingerprint = fingerprint_text(batches.corpus().fingerprint()),
                      .seed = job.run.seed,
                      .global_batch = job.batch.global_batch,
                      .parameters = options_.architecture.parameter_count(),
                      .optimizer = name_of(job.optimizer),
                      .states = state_names(job),
                      .zero_stage = job.engine == DataParallelEngine::kZero ? job.zero.stage : 0,
                      .precision = std::string(name_of(job.precision)),
                      .loss = loss,
                      .job = options_.job_text},
            .communicator = options_.communicator}));
  last_ = folder_ / checkpoint_name(step);
  return agree_on(options_.communicator, rank() == 0 ? remove_old() : Result<void>());
}

// A folder loses its name before its files go, so that what has a name is whole.
Result<void> Checkpoints::remove_old() const {
  const std::vector<fs::path> found = list_checkpoints(folder_);
  std::error_code problem;
  for (size_t i = 0; i + kKept < found.size() && !problem; ++i) {
    const fs::path going = found[i].string() + std::string(kPartialEnding);
    fs::rename(found[i], going, problem);
    if (!problem) fs::remove_all(going, problem);
  }
  for (const fs::path& path : list_folder(folder_)) {
    const bool is_left_over = path.extension() == kPartialEnding && step_of(path.stem().string());
    if (is_left_over && !problem) fs::remove_all(path, problem);  // of a run that was killed
  }
  if (problem)
    return fail({.position = {.file = folder_.string()},
                 .message = fmt::format("an old checkpoint can't be removed: {}", problem.message()),
                 .expected = "a folder that may be written to"});
  return {};
}

}  // namespace plimsoll
