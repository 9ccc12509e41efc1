#include "train/checkpoint_writer.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/replacing_file.h"
#include "runtime/finite.h"
#include "train/agreement.h"
#include "train/checkpoint_folder.h"
#include "train/checkpoint_pieces.h"
#include "train/checksum.h"
#include "weights/model_weights.h"
#include "weights/shared_model_writer.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

Result<void> put_file(const fs::path& path, const std::string& text) {
  PLIMSOLL_TRY(file, ReplacingFile::create(path, text.size()));
  PLIMSOLL_CHECK(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

class CheckpointWriter {
 public:
  CheckpointWriter(runtime::TrainingRun& run, const CheckpointContent& content)
      : run_(run),
        content_(content),
        partial_(content.folder.string() + std::string(kPartialEnding)),
        rank_(content.communicator ? content.communicator->rank() : 0),
        ranks_(content.communicator ? content.communicator->size() : 1) {
    std::vector<TensorSpec> specs;
    for (const ParameterTensor& p : content.architecture.parameters)
      specs.push_back({.name = p.name, .dtype = DType::kFloat32, .shape = p.shape});
    specs_ = in_reference_order(std::move(specs));
    for (size_t i = 0; i < specs_.size(); ++i) spec_of_[specs_[i].name] = i;
  }

  Result<void> write() {
    Result<void> done = agree_on(content_.communicator, rank_ == 0 ? lay_out() : Result<void>());
    if (done) done = agree_on(content_.communicator, write_own());
    if (done) done = agree_on(content_.communicator, rank_ == 0 ? finish() : Result<void>());
    if (!done && rank_ == 0) {
      std::error_code ignored;
      fs::remove_all(partial_, ignored);
    }
    return done;
  }

 private:
  Result<void> lay_out() {
    std::error_code problem;
    fs::remove_all(partial_, problem);
    if (problem) return unwritable_folder(partial_, problem.message());
    PLIMSOLL_CHECK(make_synced_folder(partial_));
    PLIMSOLL_TRY(laid_out, SharedModelWriter::lay_out(partial_, specs_));
    return put_file(partial_ / "config.json", content_.model_config);
  }

  const std::string& parameter_of(const Piece& piece) const {
    return content_.architecture.parameters[piece.parameter].name;
  }

  using Data = std::span<const std::byte>;
  static Data bytes_of(const at::Tensor& array, const Piece& piece) {
    return {static_cast<const std::byte*>(array.const_data_ptr()) + piece.place * array.element_size(),
            static_cast<size_t>(piece.elements * array.element_size())};
  }

  // A run that went on from other weights could only fail.
  Result<void> check_numbers(const std::string& parameter, Data bytes) const {
    const auto* const weights = reinterpret_cast<const float*>(bytes.data());  // NOLINT: masters are fp32
    if (runtime::are_finite({weights, bytes.size() / sizeof(float)})) return {};
    return fail({.position = {.file = content_.folder.string()},
                 .message = fmt::format("isn't saved: after step {} weights of {} are no numbers",
                                        content_.state.step, parameter),
                 .expected = "finite weights",
                 .hint = "a lower train.learning_rate, more train.warmup_steps, or loop.clip_max_norm; the "
                         "checkpoint before is as it was"});
  }

  // What this rank writes of each unit.
  Result<void> write_own() {
    PLIMSOLL_TRY(model, SharedModelWriter::join(partial_, specs_));
    std::vector<TensorSpec> specs;
    SafetensorsMetadata metadata = kPyTorchMetadata;
    metadata[std::string(kStepKey)] = fmt::format("{}", content_.state.step);
    PLIMSOLL_CHECK(for_each_weight([&](const std::string& parameter, const Piece& piece,
                                       Data bytes) -> Result<void> {
      PLIMSOLL_CHECK(check_numbers(parameter, bytes));
      metadata[piece_name(kWeights, parameter, piece.begin) + fmt::format(":{}", piece.elements)] =
          checksum_text(checksum(bytes));
      return model.write(spec_of_.at(parameter), static_cast<uint64_t>(piece.begin) * sizeof(float), bytes);
    }));
    PLIMSOLL_CHECK(for_each_state([&](const std::string& name, const Piece& piece, Data bytes) {
      specs.push_back({.name = name, .dtype = DType::kFloat32, .shape = {piece.elements}});
      metadata[name] = checksum_text(checksum(bytes));
      return Result<void>();
    }));
    PLIMSOLL_TRY(optimizer,
                 SafetensorsWriter::create(partial_ / optimizer_file(rank_, ranks_), specs, metadata));
    PLIMSOLL_CHECK(
        for_each_state([&](const std::string&, const Piece&, Data bytes) { return optimizer.write(bytes); }));
    PLIMSOLL_CHECK(model.sync());
    return optimizer.finish();
  }

  // f(parameter, piece, bytes): masters.
  template <typename Function>
  Result<void> for_each_weight(Function&& f) {
    for (const native::UnitTensors& u : run_.training().units) {
      PLIMSOLL_TRY(master, run_.executor().load(u.master));
      for (const Piece& piece :
           pieces_written({u.unit.tensors, u.unit.elements}, master.numel(), rank_, ranks_))
        PLIMSOLL_CHECK(f(parameter_of(piece), piece, bytes_of(master, piece)));
    }
    return {};
  }

  // f(name of the piece, piece, bytes): what the optimizer keeps, the program's tensors or copies of those on
  // disk.
  template <typename Function>
  Result<void> for_each_state(Function&& f) {
    for (const native::UnitTensors& u : run_.training().units)
      for (const native::UnitState& s : u.states) {
        PLIMSOLL_TRY(state, run_.executor().load(s.tensor));
        const ArrayLayout layout{s.layout.tensors, s.layout.elements};
        for (const Piece& piece : pieces_written(layout, state.numel(), rank_, ranks_))
          PLIMSOLL_CHECK(f(piece_name(s.layout.names[piece.tensor], parameter_of(piece), piece.begin), piece,
                           bytes_of(state, piece)));
      }
    return {};
  }

  Result<void> finish() {
    CheckpointState state = content_.state;
    state.ranks = ranks_;
    state.config_checksum = checksum_text(checksum(std::as_bytes(std::span(content_.model_config))));
    PLIMSOLL_CHECK(put_file(partial_ / kStateFile, checkpoint_state_text(state)));
    PLIMSOLL_CHECK(sync_folder(partial_));
    std::error_code problem;
    fs::rename(partial_, content_.folder, problem);
    if (problem) return unwritable_folder(content_.folder, problem.message());
    return sync_folder(content_.folder.has_parent_path() ? content_.folder.parent_path() : ".");
  }

  runtime::TrainingRun& run_;
  const CheckpointContent& content_;
  fs::path partial_;
  int64_t rank_, ranks_;
  std::vector<TensorSpec> specs_;
  std::map<std::string, size_t> spec_of_;
};

}  // namespace

std::string optimizer_file(int64_t rank, int64_t ranks) {
  return fmt::format("optimizer-{:05}-of-{:05}.safetensors", rank + 1, ranks);
}

std::string piece_name(std::string_view array, std::string_view parameter, int64_t begin) {
  return fmt::format("{}:{}:{}", array, parameter, begin);
}

Result<void> agree_on(runtime::Communicator* communicator, const Result<void>& own) {
  if (communicator == nullptr || communicator->size() == 1) return own;
  return agree(*communicator, own, {});
}

Result<void> write_checkpoint(runtime::TrainingRun& run, const CheckpointContent& content) {
  return CheckpointWriter(run, content).write();
}

}  // namespace plimsoll
