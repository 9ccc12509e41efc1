#include "strategy/train_fields.h"

#include "strategy/field_builders.h"
#include "strategy/limits.h"

namespace plimsoll {

using namespace field_builders;

namespace {
constexpr double kMaxLearningRate = 1e6;
}  // namespace

std::vector<Field> train_fields() {
  const auto run = [](auto member) { return at(&Job::run, member); };
  const auto part = FieldRange{.lowest = 0, .highest = 1};
  return {
      integer({.path = "train.steps", .unit = "steps", .help = "optimizer steps of the whole run"},
              {1, kMaxSteps}, run(&RunSettings::steps)),
      integer({.path = "train.seed", .help = "of fresh weights and of the order of the data"}, {0, kMaxSteps},
              run(&RunSettings::seed)),
      words({.path = "train.weights",
             .help = "safetensors file, index or folder to begin with",
             .default_text = "fresh weights"},
            run(&RunSettings::weights)),
      number({.path = "train.learning_rate", .help = "highest of the schedule"},
             {.lowest = 0, .highest = kMaxLearningRate}, run(&RunSettings::learning_rate)),
      choice<LearningRateSchedule>(
          {.path = "train.schedule", .help = "of the learning rate after the warm-up"},
          run(&RunSettings::schedule)),
      integer({.path = "train.warmup_steps",
               .unit = "steps",
               .help = "the learning rate rises linearly from 0, which the first of them has"},
              {0, kMaxSteps}, run(&RunSettings::warmup_steps)),
      number({.path = "train.final_learning_rate",
              .help = "where the cosine schedule is after the last step, as a part of train.learning_rate"},
             part, run(&RunSettings::final_learning_rate)),
      number({.path = "train.beta1", .help = "adamw's first moment, lion's share of it in the step"}, part,
             run(&RunSettings::beta1)),
      number({.path = "train.beta2", .help = "adamw's second moment, lion's first"}, part,
             run(&RunSettings::beta2)),
      number({.path = "train.epsilon", .help = "AdamW's, added to the root"}, part,
             run(&RunSettings::epsilon)),
      number({.path = "train.weight_decay",
              .help = "of all parameters; with adamw, lion and adafactor times the learning rate, with sgd "
                      "added to the "
                      "gradient"},
             part, run(&RunSettings::weight_decay)),
      number({.path = "train.momentum", .help = "of sgd-momentum"}, part, run(&RunSettings::momentum)),
      number({.path = "train.decay_rate",
              .help = "of adafactor: its second moment keeps 1 - step^decay_rate of what it was"},
             {.lowest = -1, .highest = 0}, run(&RunSettings::decay_rate)),
      number({.path = "train.clip_threshold",
              .help = "of adafactor: an update whose root mean square is larger is scaled to it"},
             {.lowest = 0, .highest = kMaxClipNorm, .is_lowest_excluded = true},
             run(&RunSettings::clip_threshold)),
      integer(
          {.path = "train.threads", .help = "of each rank's kernels; 0: the machine's cores over its ranks"},
          {0, kMaxThreads}, run(&RunSettings::threads)),
      words({.path = "train.metrics", .help = "file that gets a JSON line a step", .default_text = "none"},
            run(&RunSettings::metrics)),
      integer({.path = "train.evaluate_every",
               .unit = "steps",
               .help = "between evaluations on data.held_out; 0: one at the end"},
              {0, kMaxSteps}, run(&RunSettings::evaluate_every)),
      words({.path = "train.checkpoints", .help = "folder for checkpoints", .default_text = "none"},
            run(&RunSettings::checkpoints)),
      integer({.path = "train.checkpoint_every",
               .unit = "steps",
               .help = "between checkpoints; 0: one at the end"},
              {0, kMaxSteps}, run(&RunSettings::checkpoint_every)),
      boolean({.path = "train.resume", .help = "go on from the folder's last checkpoint"},
              run(&RunSettings::resume)),
  };
}

std::vector<Field> data_fields() {
  return {
      words({.path = "data.path", .help = "what to train on: a file or a folder of files"},
            at(&Job::data, &DataChoice::path)),
      choice<DataFormat>({.path = "data.format",
                          .help = "text: bytes are tokens; json-lines: a document a line; tokens: uint16 or "
                                  "uint32 (docs/training_data.md); automatic: by the file's ending"},
                         at(&Job::data, &DataChoice::format)),
      word_list({.path = "data.endings",
                 .help = "of the files to take from folders, such as .txt or .py",
                 .default_text = "all files"},
                at(&Job::data, &DataChoice::endings)),
      words({.path = "data.json_key", .help = "of JSON lines: where the text stands"},
            at(&Job::data, &DataChoice::json_key)),
      words({.path = "data.document_separator",
             .help = "of text: what stands between documents, such as <|endoftext|>, and is no part of them",
             .default_text = "a file is a document"},
            at(&Job::data, &DataChoice::document_separator)),
      boolean({.path = "data.end_of_document",
               .help = "of text and JSON lines: the id 256 follows each document"},
              at(&Job::data, &DataChoice::end_of_document)),
      choice<TokenDtype>(
          {.path = "data.token_dtype",
           .help = "of token files without a sidecar; their ids are below the model's vocabulary",
           .default_text = "as the sidecar says"},
          at(&Job::data, &DataChoice::token_dtype)),
      words({.path = "data.held_out",
             .help = "for evaluation: a file or a folder of files like data.path's, which leaves them out",
             .default_text = "none"},
            at(&Job::data, &DataChoice::held_out)),
  };
}

}  // namespace plimsoll
