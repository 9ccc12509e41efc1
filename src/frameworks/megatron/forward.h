// One micro-batch's forward through a chunk of the model, as pretrain_gpt.py and Megatron-Core run it: a
// forward Program.
#pragma once

#include <optional>
#include <vector>

#include "frameworks/megatron/stage.h"
#include "program/program.h"

namespace plimsoll::megatron {

// What the first forward makes on its way and later ones find: made right before `statement`.
// kTeGroupedWorkspace: of each of the streams of grouped products. kSequenceEnds: Transformer Engine's cache
// of where the micro-batch's sequences end.
struct MadeOnce {
  enum class Kind { kTensor, kCublasWorkspace, kTeWorkspace, kSequenceEnds, kTeGroupedWorkspace };
  Kind kind = Kind::kTensor;
  uint32_t statement = 0;
  TensorId tensor;  // kTensor
};

// What a module holds from its call on until the same place of the next one.
struct KeptByModule {
  uint32_t statement = 0;  // the tensor is there right before it
  TensorId tensor;
};

struct Forward {
  Program program;                      // its parameters are those of parameters_of(), in order
  std::optional<TensorId> input;        // received from the stage before, [s, b, h]
  std::vector<MadeOnce> made_once;      // in the order of the statements
  std::vector<KeptByModule> kept;       // in the order of the statements
  TensorId output;                      // sent to the next stage; of the last one the loss
  std::optional<TensorId> token_count;  // of the last stage: int32
  std::optional<TensorId> report;       // of the last stage: loss and count, fp32 [2]
};

// Errors: a choice without a recipe.
Result<Forward> record_forward(const Architecture& architecture, const ResolvedJob& job, const Stage& stage,
                               const Chunk& chunk);

}  // namespace plimsoll::megatron
