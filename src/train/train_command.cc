#include "train/train_command.h"

#include <fmt/format.h>

#include <charconv>

#include "runtime/launch/local_ranks.h"
#include "runtime/launch/process_place.h"
#include "train/rank_run.h"

namespace plimsoll {
namespace {

class TrainCommand final : public Command {
 public:
  std::string_view name() const override { return "train"; }
  std::string_view summary() const override {
    return "Trains a model on this machine with the plan that estimate prices";
  }
  std::string details() const override {
    return "\nThe job file's sections [train] and [data] say what is trained on and how long;\n"
           "`plimsoll help job train` lists them. The framework is native.\n"
           "\nSeveral ranks: --procs starts them here; torchrun, mpirun and srun start `plimsoll train` on\n"
           "any number of machines (docs/runtime.md).";
  }

  std::vector<Argument> arguments() override {
    return {{.name = "JOB", .help = "job file (docs/job_file.md)", .target = &request_.job_file},
            {.name = "--set",
             .value = "FIELD=VALUE",
             .help = "any field of the job file (`plimsoll help job`); may be given more than once",
             .target = &request_.settings},
            {.name = "--procs",
             .value = "N",
             .help = "trains on N ranks, each a process on this machine",
             .target = &procs_},
            {.name = "--dump-gradients",
             .value = "FILE",
             .help = "writes the first step's gradients before clipping, as safetensors",
             .target = &request_.gradients},
            {.name = "--dump-batches",
             .value = "FILE",
             .help = "writes the tokens that are trained on, a line for each sequence",
             .target = &request_.batches},
            {.name = "--record",
             .value = "FOLDER",
             .help = "writes every rank's allocations of the first two steps as predicted and as measured: "
                     "snapshots for plimsoll compare and replay",
             .target = &request_.recording}};
  }

  Result<int> run() override {
    PLIMSOLL_TRY(place, runtime::detect_process_place(runtime::environment()));
    PLIMSOLL_TRY(ranks, rank_count(place));
    if (ranks == place.size) return run_rank(request_, place);
    PLIMSOLL_CHECK(prepare(request_, ranks, ranks));  // a mistake is told once, by nobody but this process
    return runtime::run_local_ranks({.program = "/proc/self/exe",
                                     .arguments = arguments_of_ranks(),
                                     .ranks = ranks,
                                     .explained = {kOurFault, kWrongInput}});
  }

 private:
  Result<int64_t> rank_count(const runtime::ProcessPlace& place) const {
    if (!procs_) return place.size;
    constexpr int64_t kMost = 1024;
    int64_t ranks = 0;
    const auto [end, error] = std::from_chars(procs_->data(), procs_->data() + procs_->size(), ranks);
    if (error != std::errc{} || end != procs_->data() + procs_->size() || ranks < 1 || ranks > kMost)
      return fail({.position = {.file = "--procs"},
                   .message = fmt::format("\"{}\" is no number of processes", *procs_),
                   .expected = fmt::format("a whole number from 1 to {}", kMost)});
    if (place.size > 1 && ranks != place.size)
      return fail({.position = {.file = "--procs"},
                   .message = fmt::format("{} has started {} ranks already", place.launcher, place.size),
                   .expected = "no --procs under another launcher"});
    return ranks;
  }

  std::vector<std::string> arguments_of_ranks() const {
    std::vector<std::string> all{"train"};
    for (const std::string& setting : request_.settings) all.insert(all.end(), {"--set", setting});
    if (request_.gradients) all.insert(all.end(), {"--dump-gradients", *request_.gradients});
    if (request_.batches) all.insert(all.end(), {"--dump-batches", *request_.batches});
    if (request_.recording) all.insert(all.end(), {"--record", *request_.recording});
    if (request_.job_file) all.insert(all.end(), {"--", *request_.job_file});
    return all;
  }

  TrainRequest request_;
  std::optional<std::string> procs_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace plimsoll
