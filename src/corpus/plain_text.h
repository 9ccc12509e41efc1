// Files of text as bytes, each one document: a token's place is a byte's place, so there is no index.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "corpus/corpus_files.h"
#include "corpus/token_source.h"

namespace plimsoll {

std::unique_ptr<TokenSource> open_plain_text(std::vector<CorpusFile> files, bool end_of_document);

}  // namespace plimsoll
