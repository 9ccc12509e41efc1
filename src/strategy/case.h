// What a check of `contradictions` (strategy/resolve.h) looks at: the job as written, as it would be run, and
// what it depends on. Lives as long as the four it refers to.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/architecture.h"
#include "strategy/job.h"
#include "strategy/resolve.h"

namespace plimsoll {

struct Case {
  const Job& job;
  const ResolvedJob& resolved;
  const Architecture& architecture;
  const GpuFacts& gpu;
};

inline constexpr int kAmpere = 80;  // compute capability: the first with bf16 units and FlashAttention 2

using Errors = std::vector<Error>;

// `field` is the path of the field that is named first.
struct Contradiction {
  std::string field;
  std::string message;
  std::string expected;
  std::string hint;
};
inline void add(Errors& errors, Contradiction c) {
  errors.push_back({.position = {.key = std::move(c.field)},
                    .message = std::move(c.message),
                    .expected = std::move(c.expected),
                    .hint = std::move(c.hint)});
}

// One group of checks a file: mesh_checks.cc, step_checks.cc, block_checks.cc,
// native_checks.cc.
void check_mesh(const Case& c, Errors& errors);
void check_engine(const Case& c, Errors& errors);
void check_batch(const Case& c, Errors& errors);
void check_step(const Case& c, Errors& errors);
void check_blocks(const Case& c, Errors& errors);
void check_torchtitan(const Case& c, Errors& errors);  // torchtitan_checks.cc: what has no recipe there
void check_native(const Case& c, Errors& errors);      // native_checks.cc: what the native runtime can't do

}  // namespace plimsoll
