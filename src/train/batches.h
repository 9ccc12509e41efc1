// The tokens of each micro-batch of a rank, from the job's corpus.
#pragma once

#include <memory>
#include <vector>

#include "corpus/corpus.h"
#include "corpus/sampler.h"
#include "runtime/training_run.h"
#include "strategy/job.h"

namespace plimsoll {

// Fields of [data] that no file reads. `formats`: what the files for training are, and those held out.
Result<void> check_data_fields(const DataChoice& data, const std::vector<CorpusFormat>& formats);

class Batches {
 public:
  // Errors: no data.path; what Corpus::open() says; a corpus without a window.
  static Result<Batches> open(const ResolvedJob& job, int64_t vocabulary, int64_t rank);
  // Of data.held_out, in its own order. Errors: less of it than a step's batch.
  static Result<Batches> open_held_out(const ResolvedJob& job, int64_t vocabulary, int64_t rank);

  // REQUIRES step isn't before the one that was sought.
  Result<void> fill(int64_t step, int64_t micro_step, at::Tensor& ids, at::Tensor& labels) const;
  const Corpus& corpus() const { return *corpus_; }
  int64_t whole_steps() const { return corpus_->windows() / sampler_.global_batch(); }  // of an epoch
  // For checkpoints: `samples` came before the step numbered `step`, with batches of any size.
  void seek(int64_t step, int64_t samples);
  int64_t samples_before(int64_t step) const { return sampler_.position_after(step - first_step_); }

 private:
  static Result<Batches> make(const ResolvedJob& job, CorpusOptions files, bool shuffled, int64_t vocabulary,
                              int64_t rank);
  Batches(std::unique_ptr<Corpus> corpus, Sampler sampler, BatchShape shape, int64_t rank)
      : corpus_(std::move(corpus)), sampler_(sampler), shape_(shape), rank_(rank) {}

  std::unique_ptr<Corpus> corpus_;
  Sampler sampler_;
  BatchShape shape_;
  int64_t rank_;
  int64_t first_step_ = 0;  // whose batch begins at the sampler's position
};

}  // namespace plimsoll
