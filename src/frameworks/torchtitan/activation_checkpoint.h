// apply_ac: which blocks are checkpointed, and what selective checkpoints keep.
#pragma once

#include "base/result.h"
#include "program/program.h"
#include "strategy/job.h"

namespace plimsoll::torchtitan {

Result<void> mark_checkpoints(Program& forward, const ResolvedJob& job);

}  // namespace plimsoll::torchtitan
