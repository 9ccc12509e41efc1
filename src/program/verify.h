// What must hold for every program, checked by playing it: passes, recipes and readers of text are held to
// it by tests, and the command line's debug option calls it too.
//
//   Result<void> ok = verify(program);   // "phase "bwd1", statement 1203: free s7 saved: the storage isn't
//   live"
//
// Tables: every index is in range, a tensor fits into its storage (gathered parameters with a byte an
// element), results of views and writes in place share the first input's storage, collectives name a known
// group, every op stands in one statement, in their order. Forward programs: what is read exists and wasn't
// dropped, each tensor is dropped at most once, calls of modules nest and have their results at their end.
// Complete programs, along the schedule: what is read is live and, but for transfers, not on disk, what an op
// makes is not live yet, a `free` finds its storage live, every statement belongs to a section, and at the
// end only what persists over steps is left.
#pragma once

#include "base/result.h"
#include "program/program.h"

namespace plimsoll {

struct VerifyOptions {
  // The job keeps results of its last forward in scope (hold_outputs), or a module what its first forward
  // made: activations may be left at the end.
  bool may_keep_outputs = false;
  // Gradients aren't set to None after a step (zero_grad), or live in buckets: they may be left at the end.
  bool may_keep_gradients = false;
};

// A failure is the maker's fault: the error is internal.
Result<void> verify(const Program& program, const VerifyOptions& options = {});

}  // namespace plimsoll
