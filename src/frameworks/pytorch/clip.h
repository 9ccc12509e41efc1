// torch.nn.utils.clip_grad_norm_(foreach=True). Source: torch/nn/utils/clip_grad.py; for shards,
// _NormPartial in torch/distributed/tensor/_ops/_math_ops.py.
#pragma once

#include "frameworks/pytorch/optimizers/optimizer.h"

namespace plimsoll::pytorch {

// `is_sharded`: gradients are DTensors, whose norms are reduced over the ranks.
void clip_gradients(Recorder& recorder, const std::vector<TrainedTensor>& tensors, double max_norm,
                    bool is_sharded);

}  // namespace plimsoll::pytorch
