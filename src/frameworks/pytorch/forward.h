// The forward pass of a Transformers model with labels, written as a forward Program.
#pragma once

#include "base/result.h"
#include "model/architecture.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::pytorch {

struct ForwardProgram {
  Program program;
  TensorId loss;                       // scaled as the training loop does before backward()
  std::vector<TensorId> buffers;       // as Architecture::buffers
  std::vector<TensorId> made_once;     // what the first forward makes and later ones find, by module
  TensorId ids, labels;                // inputs, int64 [b, s]
  std::optional<TensorId> mask;        // attention mask of ones, int64 [b, s]
  std::optional<TensorId> scale;       // of the GradScaler, fp32
  uint32_t scaling_begins = 0;         // statement after which the loss is multiplied by the scale
  std::vector<TensorId> held_outputs;  // of the model, when the loop keeps them in scope
};

struct ForwardOptions {
  DType parameter_dtype = DType::kBFloat16;  // that the modules see
  bool is_training = true;
};

// `trainable`: one flag a parameter. Errors: a family or an option without a recipe.
Result<ForwardProgram> record_forward(const Architecture& architecture, const ResolvedJob& job,
                                      const std::vector<bool>& trainable, ForwardOptions options);

}  // namespace plimsoll::pytorch
