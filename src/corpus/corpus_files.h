// The files of a corpus: found, in a fixed order, and held to what they were.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/result.h"
#include "corpus/corpus.h"

namespace plimsoll {

struct CorpusFile {
  std::filesystem::path path;
  FileStamp stamp;
};

struct CorpusFiles {
  CorpusFormat format = CorpusFormat::kText;
  std::vector<CorpusFile> files;  // in the order of the paths, a folder's by their names
};

// Without a format it is that of the files' endings: .jsonl and .ndjson are JSON lines, .bin are tokens, all
// others text. Passed over below folders: hidden files and folders, empty files, links to folders, and the
// sidecars of token files. Errors: no files; files of several formats.
Result<CorpusFiles> find_corpus_files(const CorpusOptions& options);

// Opens the file anew, so that a corpus may have more files than a process may have open. Error: it isn't
// what it was.
Result<InputFile> open_unchanged(const CorpusFile& file);

// Where a row of files has its token `first`: the last file that begins at or before it.
// REQUIRES starts in ascending order, starts[0] <= first.
size_t file_of_token(const std::vector<int64_t>& starts, int64_t first);

}  // namespace plimsoll
