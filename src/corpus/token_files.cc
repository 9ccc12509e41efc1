#include "corpus/token_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/read_file.h"
#include "base/units.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string_view name_of(TokenWidth width) { return width == TokenWidth::kUInt16 ? "uint16" : "uint32"; }

// Ids of one file as they lie there.
int64_t id_at(const std::byte* bytes, TokenWidth width) {
  int64_t id = 0;
  for (int64_t i = bytes_of(width); i-- > 0;) id = id << 8 | std::to_integer<int64_t>(bytes[i]);
  return id;
}

class TokenFiles final : public TokenSource {
 public:
  TokenFiles(std::vector<CorpusFile> files, TokenWidth width, int64_t vocabulary)
      : files_(std::move(files)), width_(width), vocabulary_(vocabulary) {
    for (const CorpusFile& file : files_) {
      starts_.push_back(tokens_);
      tokens_ += static_cast<int64_t>(file.stamp.size) / bytes_of(width_);
    }
  }

  int64_t tokens() const override { return tokens_; }
  int64_t vocabulary() const override { return vocabulary_; }
  uint64_t index_bytes() const override { return starts_.size() * sizeof(starts_[0]); }

  Result<void> read(int64_t first, std::span<int64_t> to) const override {
    for (size_t i = file_of_token(starts_, first); !to.empty(); ++i) {
      const int64_t end = i + 1 == starts_.size() ? tokens_ : starts_[i + 1];
      const size_t count = std::min(to.size(), static_cast<size_t>(end - first));
      PLIMSOLL_CHECK(read_ids(files_[i], first - starts_[i], to.first(count)));
      to = to.subspan(count);
      first += static_cast<int64_t>(count);
    }
    return {};
  }

 private:
  Result<void> read_ids(const CorpusFile& file, int64_t first, std::span<int64_t> to) const {
    PLIMSOLL_TRY(opened, open_unchanged(file));
    const int64_t id_bytes = bytes_of(width_);
    std::vector<std::byte> bytes(to.size() * static_cast<size_t>(id_bytes));
    const int64_t offset = first * id_bytes;
    PLIMSOLL_CHECK(opened.read(static_cast<uint64_t>(offset), bytes));
    for (size_t i = 0; i < to.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) * id_bytes;
      to[i] = id_at(&bytes[static_cast<size_t>(at)], width_);
      if (to[i] >= vocabulary_) return fail(beyond(file, offset + at, to[i]));
    }
    return {};
  }

  Error beyond(const CorpusFile& file, int64_t byte, int64_t id) const {
    return {.position = {.file = file.path.string(),
                         .key = "",
                         .line = {},
                         .column = {},
                         .byte = static_cast<uint64_t>(byte)},
            .message = fmt::format("holds the token id {}", id),
            .expected = fmt::format("ids below {}, the size of the vocabulary", vocabulary_),
            .hint = fmt::format("were the tokens made with another tokenizer, or aren't they {}?",
                                name_of(width_))};
  }

  std::vector<CorpusFile> files_;
  TokenWidth width_;
  int64_t vocabulary_;
  std::vector<int64_t> starts_;  // each file's first token
  int64_t tokens_ = 0;
};

Result<std::optional<TokenSidecar>> sidecar_of(const CorpusFile& file, const CorpusOptions& options) {
  const std::string path = file.path.string() + ".json";
  std::error_code problem;
  if (!fs::exists(path, problem)) return std::optional<TokenSidecar>();
  constexpr size_t kMostBytes = size_t{1} << 20;
  PLIMSOLL_TRY(text, read_file(path, {.most_bytes = kMostBytes, .expected = "a sidecar of tokens"}));
  PLIMSOLL_TRY(sidecar, parse_token_sidecar(text, path));
  if (options.token_width && *options.token_width != sidecar.width)
    return fail({.position = {.file = path, .key = "dtype"},
                 .message = fmt::format("is {}", name_of(sidecar.width)),
                 .expected = fmt::format("{}, as was said", name_of(*options.token_width))});
  const int64_t bytes = saturating_multiply(sidecar.tokens, bytes_of(sidecar.width));
  if (static_cast<int64_t>(file.stamp.size) != bytes)
    return fail({.position = {.file = file.path.string()},
                 .message = fmt::format("has {} bytes", file.stamp.size),
                 .expected = fmt::format("{} bytes, as {} says", bytes, path)});
  return std::optional<TokenSidecar>(std::move(sidecar));
}

// What all files are: the first one's sidecar, which the others' must equal, or the options.
struct Kind {
  std::optional<TokenWidth> width;
  std::optional<int64_t> vocabulary;
  std::string tokenizer;
};

Result<void> merge(const CorpusFile& file, const TokenSidecar& sidecar, const CorpusFile& first, Kind& kind) {
  const auto differs = [&](const char* what) {
    return fail({.position = {.file = file.path.string() + ".json"},
                 .message = fmt::format("says another {} than that of {}", what, first.path.string()),
                 .expected = "files of one tokenizer"});
  };
  if (kind.width.value_or(sidecar.width) != sidecar.width) return differs("dtype");
  if (kind.vocabulary.value_or(sidecar.vocabulary) != sidecar.vocabulary) return differs("vocabulary");
  const bool is_named = !kind.tokenizer.empty() && !sidecar.tokenizer_sha256.empty();
  if (is_named && kind.tokenizer != sidecar.tokenizer_sha256) return differs("tokenizer");
  kind = {.width = sidecar.width,
          .vocabulary = sidecar.vocabulary,
          .tokenizer = kind.tokenizer.empty() ? sidecar.tokenizer_sha256 : kind.tokenizer};
  return {};
}

Result<void> check_whole_tokens(const std::vector<CorpusFile>& files, TokenWidth width) {
  for (const CorpusFile& file : files)
    if (file.stamp.size % static_cast<uint64_t>(bytes_of(width)) != 0)
      return fail({.position = {.file = file.path.string()},
                   .message = fmt::format("has {} bytes", file.stamp.size),
                   .expected = fmt::format("whole tokens of {}", name_of(width))});
  return {};
}

}  // namespace

Result<std::unique_ptr<TokenSource>> open_token_files(std::vector<CorpusFile> files,
                                                      const CorpusOptions& options,
                                                      std::vector<std::string>& notes) {
  Kind kind;
  for (const CorpusFile& file : files) {
    PLIMSOLL_TRY(sidecar, sidecar_of(file, options));
    if (!sidecar) continue;
    PLIMSOLL_CHECK(merge(file, *sidecar, files.front(), kind));
    if (sidecar->cut_documents > 0)
      notes.push_back(
          fmt::format("{}: {} documents were tokenised in pieces, so that tokens at the cuts may "
                      "differ from those of the whole document",
                      file.path.string(), sidecar->cut_documents));
  }
  const auto width = kind.width ? kind.width : options.token_width;
  const auto vocabulary = kind.vocabulary ? kind.vocabulary : options.vocabulary;
  if (!width || !vocabulary)
    return fail({.position = {.file = files.front().path.string()},
                 .message = fmt::format("has no sidecar that says its {}", width ? "vocabulary" : "dtype"),
                 .expected = fmt::format("{}.json, or data.token_dtype in the job",
                                         files.front().path.filename().string()),
                 .hint = "tools/tokenize_corpus writes tokens with a sidecar"});
  PLIMSOLL_CHECK(check_whole_tokens(files, *width));
  return std::unique_ptr<TokenSource>(std::make_unique<TokenFiles>(std::move(files), *width, *vocabulary));
}

}  // namespace plimsoll
