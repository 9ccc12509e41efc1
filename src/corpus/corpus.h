// Text or ready tokens on the disk, as windows of `sequence` + 1 tokens to train on.
//
//   PLIMSOLL_TRY(corpus, Corpus::open({.paths = {"text/"}, .sequence = 1024}));
//   std::vector<int64_t> tokens(corpus.window_tokens());  // inputs: all but the last; labels: all but the
//   first PLIMSOLL_CHECK(corpus.read(window, tokens));
//
//   files      a.txt              b.txt
//   tokens     t h e   e n d EOD  o n c e EOD        documents, one after the other
//   window 0   t h e   e                             sequence = 4
//   window 1           e n d EOD o                   the last token is the next window's first
//   window 2                     o  n c e EOD
//
// Every token but the first is a label once; what is too short for a window at the end is left out. Memory is
// a path and 64 bytes for each file, and for JSON lines and text with separators 24 bytes for each 64 KiB,
// from one pass over the files; nothing grows with documents or tokens. Thread-safe once open.
//
// Errors: base/input_file.h, so also a file that changed since open(); lines that aren't JSON objects with
// the text key; sizes that are no whole tokens; ids beyond the vocabulary, with the byte in the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "corpus/token_source.h"

namespace plimsoll {

enum class CorpusFormat {
  kText,       // bytes; every file is a document, or what stands between separators
  kJsonLines,  // an object a line, its text a document; bytes too
  kTokens      // ids, little endian (docs/training_data.md)
};
enum class TokenWidth { kUInt16, kUInt32 };

// The id behind a document of bytes.
inline constexpr int64_t kByteEndOfDocument = 256;

struct CorpusOptions {
  std::vector<std::filesystem::path> paths;  // files, and folders for the files below, in the order of names
  std::filesystem::path left_out;      // this file, or what is below this folder, whatever link leads to it
  std::vector<std::string> endings;    // of the files to take from folders (".py"); empty: all
  std::optional<CorpusFormat> format;  // empty: by the files' endings (corpus/corpus_files.h)
  std::string text_key = "text";       // of JSON lines
  std::string document_separator;      // in text; empty: none
  bool end_of_document = true;         // an id behind each document of bytes
  std::optional<TokenWidth> token_width;  // of token files that have no sidecar
  std::optional<int64_t> vocabulary;      // of the model: ids are below it
  int64_t sequence = 0;
};

class Corpus {
 public:
  static Result<Corpus> open(const CorpusOptions& options);

  int64_t tokens() const { return source_->tokens(); }
  int64_t windows() const { return (tokens() - 1) / sequence_; }
  int64_t window_tokens() const { return sequence_ + 1; }
  int64_t vocabulary() const { return source_->vocabulary(); }  // ids are below it
  // Tells whether a checkpoint's position is one of this corpus: of its files' sizes, its tokens and how they
  // are cut; not of the files' places or times.
  uint64_t fingerprint() const { return fingerprint_; }
  uint64_t index_bytes() const { return source_->index_bytes(); }
  CorpusFormat format() const { return format_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // REQUIRES 0 <= window < windows() and to.size() == window_tokens().
  Result<void> read(int64_t window, std::span<int64_t> to) const;

 private:
  Corpus(std::unique_ptr<TokenSource> source, int64_t sequence)
      : source_(std::move(source)), sequence_(sequence) {}

  std::unique_ptr<TokenSource> source_;
  int64_t sequence_;
  CorpusFormat format_ = CorpusFormat::kText;
  uint64_t fingerprint_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace plimsoll
