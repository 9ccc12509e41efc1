// The forward pass of torchtitan's trainer with its loss, written as a forward Program.
#pragma once

#include "frameworks/pytorch/forward.h"

namespace plimsoll::torchtitan {

// `architecture`: as torchtitan has it (architecture.h).
Result<pytorch::ForwardProgram> record_forward(const Architecture& architecture, const ResolvedJob& job,
                                               const std::vector<bool>& trainable,
                                               pytorch::ForwardOptions options);

}  // namespace plimsoll::torchtitan
