// torchtitan's Transformer of the Llama 3 family and its Qwen3Model, written with pytorch::Eager.
#pragma once

#include "frameworks/pytorch/eager.h"
#include "strategy/job.h"

namespace plimsoll::torchtitan {

// The model's forward on ids [b, s]: logits [b, s, vocab]. One region of kind kModel; embedding, blocks, and
// norm with output are regions within.
Value transformer(pytorch::Eager& e, const ResolvedJob& job, const Value& ids);

}  // namespace plimsoll::torchtitan
