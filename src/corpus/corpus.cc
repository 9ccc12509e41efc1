#include "corpus/corpus.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

#include "base/units.h"
#include "corpus/corpus_files.h"
#include "corpus/indexed_text.h"
#include "corpus/mix.h"
#include "corpus/plain_text.h"
#include "corpus/text_scanner.h"
#include "corpus/token_files.h"

namespace plimsoll {
namespace {

Result<std::unique_ptr<TokenSource>> open_source(CorpusFiles found, const CorpusOptions& options,
                                                 std::vector<std::string>& notes) {
  std::vector<CorpusFile>& files = found.files;
  if (found.format == CorpusFormat::kTokens) return open_token_files(std::move(files), options, notes);
  if (found.format == CorpusFormat::kJsonLines)
    return open_indexed_text(std::move(files), options.end_of_document,
                             [key = options.text_key](InputFile file, const TextPlace& from) {
                               return scan_json_lines(std::move(file), from, key);
                             });
  if (options.document_separator.empty()) return open_plain_text(std::move(files), options.end_of_document);
  return open_indexed_text(std::move(files), options.end_of_document,
                           [separator = options.document_separator](InputFile file, const TextPlace& from) {
                             return scan_separated_text(std::move(file), from, separator);
                           });
}

uint64_t fingerprint_of(const CorpusFiles& found, const TokenSource& source, const CorpusOptions& options) {
  uint64_t print = mix(static_cast<uint64_t>(options.sequence));
  print = mix(print ^ static_cast<uint64_t>(found.format));
  print = mix(print ^ static_cast<uint64_t>(source.tokens()));
  print = mix(print ^ static_cast<uint64_t>(source.vocabulary()));
  for (const CorpusFile& file : found.files) print = mix(print ^ file.stamp.size);
  for (const char c : options.document_separator) print = mix(print ^ static_cast<unsigned char>(c));
  return print;
}

}  // namespace

Result<Corpus> Corpus::open(const CorpusOptions& options) {
  constexpr int64_t kLongestSequence = int64_t{1} << 40;
  if (options.sequence < 1 || options.sequence > kLongestSequence)
    return fail({.position = {.file = "", .key = "sequence"},
                 .message = fmt::format("is {}", options.sequence),
                 .expected = fmt::format("an integer from 1 to {}", kLongestSequence)});
  PLIMSOLL_TRY(found, find_corpus_files(options));
  std::vector<std::string> notes;
  PLIMSOLL_TRY(source, open_source(found, options, notes));
  const std::string first = found.files.front().path.string();
  if (options.vocabulary && source->vocabulary() > *options.vocabulary)
    return fail({.position = {.file = first},
                 .message = fmt::format("has token ids up to {}", source->vocabulary() - 1),
                 .expected = fmt::format("ids below {}, the model's vocabulary", *options.vocabulary)});
  if (source->tokens() <= options.sequence)
    return fail({.position = {.file = first},
                 .message = fmt::format("the corpus has {} tokens", source->tokens()),
                 .expected = fmt::format("at least {}, one window", options.sequence + 1),
                 .hint = "train on more text or on shorter sequences"});
  Corpus corpus(std::move(source), options.sequence);
  corpus.notes_ = std::move(notes);
  corpus.fingerprint_ = fingerprint_of(found, *corpus.source_, options);
  corpus.format_ = found.format;
  return corpus;
}

Result<void> Corpus::read(int64_t window, std::span<int64_t> to) const {
  assert(window >= 0 && window < windows() && to.size() == static_cast<size_t>(window_tokens()));
  return source_->read(window * sequence_, to);
}

}  // namespace plimsoll
