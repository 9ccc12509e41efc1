// Files of ready token ids: uint16 or uint32, little endian, nothing else (docs/training_data.md). What they
// are is said by a sidecar, <file>.json beside each, which tools/tokenize_corpus writes, or by the options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "corpus/corpus.h"
#include "corpus/corpus_files.h"
#include "corpus/token_source.h"

namespace plimsoll {

struct TokenSidecar {
  TokenWidth width = TokenWidth::kUInt16;
  int64_t vocabulary = 0;  // ids are below it
  int64_t tokens = 0;
  std::optional<int64_t> end_of_document;
  std::string tokenizer_sha256;  // of tokenizer.json; empty: not said
  int64_t cut_documents = 0;     // that were tokenised in pieces
};

constexpr int64_t bytes_of(TokenWidth width) { return width == TokenWidth::kUInt16 ? 2 : 4; }

// Errors, beside base/json_events.h: a key that is missing, unknown or of another type.
Result<TokenSidecar> parse_token_sidecar(std::string_view json, const std::string& file);

// Errors: sidecars that contradict their file, each other or the options; neither sidecar nor options; later,
// ids beyond the vocabulary. Adds to `notes` what sidecars say of approximations.
Result<std::unique_ptr<TokenSource>> open_token_files(std::vector<CorpusFile> files,
                                                      const CorpusOptions& options,
                                                      std::vector<std::string>& notes);

}  // namespace plimsoll
