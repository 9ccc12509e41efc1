// Weights from safetensors in Hugging Face's names, read in fp32.
#pragma once

#include <memory>

#include "runtime/model_host.h"
#include "weights/model_weights.h"

namespace plimsoll {

// Every parameter of the architecture is there, under its name or a tied one, in its shape and in fp32, bf16
// or fp16; of a checkpoint of the model's body alone the first part of the name is missing ("transformer.",
// "model."), which is accepted. What is there besides is an error, but for buffers and for equal copies of
// tied tensors. Copies that differ are an error too: Transformers doesn't tie them then, whatever the
// configuration says, and so trains another model (PreTrainedModel.tie_weights() of 5.24). REQUIRES weights
// and architecture outlive the source.
Result<runtime::WeightSource> stored_weights(const ModelWeights& weights, const Architecture& architecture);

}  // namespace plimsoll
