// Which window of a corpus is trained on when: all of them once an epoch, in an order that the seed and the
// epoch say, and that needs no memory.
//
//   PLIMSOLL_TRY(sampler, Sampler::make({.seed = 1, .windows = corpus.windows(), .global_batch = 32}));
//   int64_t window = sampler.window(step, row);     // row 0 .. 31 of the step's global batch
//
// Rows are numbered over the whole job, so a step's batch is the same windows for every number of ranks and
// of micro-batches; BatchShape says which row a rank takes. Batches go on across the end of an epoch: nothing
// is left out and nothing is padded.
//
//   sample n = position + step * global_batch + row
//   epoch    = n / windows                       window = permutation of the epoch (n mod windows)
//
// The permutation is a Feistel network over the smallest square of a power of two that holds all windows,
// walked until it lands on a window (Black and Rogaway: Ciphers with Arbitrary Finite Domains, 2002).
#pragma once

#include <cstdint>

#include "base/result.h"

namespace plimsoll {

// A bijection of 0 .. size-1 on itself. REQUIRES 0 < size <= 2^62, 0 <= index < size.
int64_t permuted(uint64_t key, int64_t size, int64_t index);

struct SamplerOptions {
  uint64_t seed = 0;
  int64_t windows = 0;
  int64_t global_batch = 0;
  bool shuffled = true;  // false: in the corpus's order, as for an evaluation
};

class Sampler {
 public:
  // Errors: no windows; no batch.
  static Result<Sampler> make(const SamplerOptions& options);

  // Of the step's batch, the first step being the one at position(). REQUIRES step >= 0,
  // 0 <= row < global_batch.
  int64_t window(int64_t step, int64_t row) const;
  int64_t epoch(int64_t step, int64_t row) const;

  int64_t global_batch() const { return options_.global_batch; }

  // For checkpoints: how many samples came before step 0. Batches may have another size after seek().
  int64_t position() const { return position_; }
  int64_t position_after(int64_t steps) const { return position_ + steps * options_.global_batch; }
  void seek(int64_t position) { position_ = position; }  // REQUIRES position >= 0

 private:
  explicit Sampler(const SamplerOptions& options) : options_(options) {}
  int64_t sample(int64_t step, int64_t row) const;

  SamplerOptions options_;
  int64_t position_ = 0;
};

// How a global batch is cut: ranks x accumulation x rows.
//
//   PLIMSOLL_TRY(shape, BatchShape::make({.global_batch = 32, .ranks = 4, .micro_batch = 2}));
//   int64_t row = shape.row(rank, micro_step, row_of_micro_batch);   // micro_step below shape.accumulation
struct BatchShapeOptions {
  int64_t global_batch = 0;
  int64_t ranks = 1;
  int64_t micro_batch = 1;  // rows of one forward pass of one rank
};
struct BatchShape {
  int64_t ranks = 1, micro_batch = 1, accumulation = 1;

  // Error: a batch that ranks and micro-batch don't divide.
  static Result<BatchShape> make(const BatchShapeOptions& options);
  constexpr int64_t row(int64_t rank, int64_t micro_step, int64_t row_of_micro_batch) const {
    return (micro_step * ranks + rank) * micro_batch + row_of_micro_batch;
  }
};

}  // namespace plimsoll
