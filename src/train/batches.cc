#include "train/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace plimsoll {
namespace {

std::optional<CorpusFormat> format_of(DataFormat format) {
  switch (format) {
    case DataFormat::kAutomatic:
      return std::nullopt;
    case DataFormat::kText:
      return CorpusFormat::kText;
    case DataFormat::kJsonLines:
      return CorpusFormat::kJsonLines;
    case DataFormat::kTokens:
      return CorpusFormat::kTokens;
  }
  return std::nullopt;
}

std::optional<TokenWidth> width_of(std::optional<TokenDtype> dtype) {
  if (!dtype) return std::nullopt;
  return *dtype == TokenDtype::kUInt16 ? TokenWidth::kUInt16 : TokenWidth::kUInt32;
}

std::string_view name_of(CorpusFormat format) {
  if (format == CorpusFormat::kText) return "text";
  return format == CorpusFormat::kJsonLines ? "JSON lines" : "tokens";
}

}  // namespace

Result<void> check_data_fields(const DataChoice& data, const std::vector<CorpusFormat>& formats) {
  using enum CorpusFormat;
  struct Reader {
    const char* field;
    bool is_given;
    std::vector<CorpusFormat> formats;  // that read it
  };
  for (const auto& [field, is_given, readers] :
       {Reader{"data.json_key", data.json_key != DataChoice{}.json_key, {kJsonLines}},
        Reader{"data.document_separator", !data.document_separator.empty(), {kText}},
        Reader{"data.end_of_document", !data.end_of_document, {kText, kJsonLines}},
        Reader{"data.token_dtype", data.token_dtype.has_value(), {kTokens}}}) {
    const bool is_read = std::ranges::find_first_of(readers, formats) != readers.end();
    if (!is_given || is_read) continue;
    return fail(
        {.position = {.key = field},
         .message = fmt::format("has no effect: the files of data.path are {}", name_of(formats.front())),
         .expected = fmt::format("files of {}, or no {}", name_of(readers.front()), field),
         .hint = "data.format says what the files are"});
  }
  return {};
}

Result<Batches> Batches::open(const ResolvedJob& job, int64_t vocabulary, int64_t rank) {
  if (job.data.path.empty())
    return fail({.position = {.key = "data.path"},
                 .message = "no data is given",
                 .expected = "a file or a folder to train on"});
  return make(job, {.paths = {job.data.path}, .left_out = job.data.held_out}, /*shuffled=*/true, vocabulary,
              rank);
}

Result<Batches> Batches::open_held_out(const ResolvedJob& job, int64_t vocabulary, int64_t rank) {
  PLIMSOLL_TRY(batches, make(job, {.paths = {job.data.held_out}}, /*shuffled=*/false, vocabulary, rank));
  if (batches.whole_steps() > 0) return batches;
  return fail({.position = {.file = job.data.held_out, .key = "data.held_out"},
               .message = fmt::format("has {} sequences of {} tokens", batches.corpus().windows(),
                                      job.batch.sequence),
               .expected = fmt::format("at least a step's batch of {}", job.batch.global_batch)});
}

Result<Batches> Batches::make(const ResolvedJob& job, CorpusOptions files, bool shuffled, int64_t vocabulary,
                              int64_t rank) {
  files.format = format_of(job.data.format);
  files.endings = job.data.endings;
  files.text_key = job.data.json_key;
  files.document_separator = job.data.document_separator;
  files.end_of_document = job.data.end_of_document;
  files.token_width = width_of(job.data.token_dtype);
  files.vocabulary = vocabulary;
  files.sequence = job.batch.sequence;
  PLIMSOLL_TRY(corpus, Corpus::open(files));
  PLIMSOLL_TRY(sampler, Sampler::make({.seed = static_cast<uint64_t>(job.run.seed),
                                       .windows = corpus.windows(),
                                       .global_batch = job.batch.global_batch,
                                       .shuffled = shuffled}));
  PLIMSOLL_TRY(shape, BatchShape::make({.global_batch = job.batch.global_batch,
                                        .ranks = job.mesh.data,
                                        .micro_batch = job.batch.micro_batch}));
  return Batches(std::make_unique<Corpus>(std::move(corpus)), sampler, shape, rank);
}

void Batches::seek(int64_t step, int64_t samples) {
  first_step_ = step;
  sampler_.seek(samples);
}

Result<void> Batches::fill(int64_t step, int64_t micro_step, at::Tensor& ids, at::Tensor& labels) const {
  const int64_t sequence = ids.size(1);
  std::vector<int64_t> window(static_cast<size_t>(corpus_->window_tokens()));
  auto* const to_ids = static_cast<int64_t*>(ids.mutable_data_ptr());
  auto* const to_labels = static_cast<int64_t*>(labels.mutable_data_ptr());
  for (int64_t row = 0; row < ids.size(0); ++row) {
    PLIMSOLL_CHECK(
        corpus_->read(sampler_.window(step - first_step_, shape_.row(rank_, micro_step, row)), window));
    std::copy_n(window.begin(), sequence, to_ids + row * sequence);
    std::copy_n(window.begin() + 1, sequence, to_labels + row * sequence);
  }
  return {};
}

}  // namespace plimsoll
