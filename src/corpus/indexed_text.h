// Files of documents whose tokens' places can't be told from the bytes': one pass notes, for each 64 KiB of a
// file, where it is and which token begins there; a read starts at the note before it.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "corpus/corpus_files.h"
#include "corpus/text_scanner.h"
#include "corpus/token_source.h"

namespace plimsoll {

using OpenScanner = std::function<std::unique_ptr<TextScanner>(InputFile file, const TextPlace& from)>;

Result<std::unique_ptr<TokenSource>> open_indexed_text(std::vector<CorpusFile> files, bool end_of_document,
                                                       OpenScanner open_scanner);

}  // namespace plimsoll
