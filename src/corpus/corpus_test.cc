#include "corpus/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "corpus/token_files.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The tokens of every window, those shared by two once; bytes as letters, the end of a document as '|'.
std::string text_of(const Corpus& corpus) {
  std::string text;
  std::vector<int64_t> tokens(static_cast<size_t>(corpus.window_tokens()));
  for (int64_t window = 0; window < corpus.windows(); ++window) {
    const auto read = corpus.read(window, tokens);
    if (!read) return read.error().to_text();
    const char shared = tokens[0] == kByteEndOfDocument ? '|' : static_cast<char>(tokens[0]);
    EXPECT_TRUE(text.empty() || text.back() == shared);
    for (size_t i = window == 0 ? 0 : 1; i < tokens.size(); ++i)
      text.push_back(tokens[i] == kByteEndOfDocument ? '|' : static_cast<char>(tokens[i]));
  }
  return text;
}

std::string opened(const CorpusOptions& options) {
  const auto corpus = Corpus::open(options);
  return corpus ? text_of(*corpus) : corpus.error().to_text();
}

TEST(Corpus, TextFilesAreDocumentsInTheOrderOfTheirNames) {
  const fs::path folder = test_folder();
  put(folder / "b.txt", "once");
  put(folder / "a.txt", "the end");
  put(folder / "c/d.txt", "x");
  put(folder / ".hidden/e.txt", "no");
  put(folder / "empty.txt", "");
  const auto corpus = Corpus::open({.paths = {folder}, .sequence = 4});
  ASSERT_TRUE(corpus) << corpus.error().to_text();
  EXPECT_EQ(corpus->tokens(), 15);
  EXPECT_EQ(corpus->windows(), 3);
  EXPECT_EQ(corpus->vocabulary(), 257);
  EXPECT_EQ(text_of(*corpus), "the end|once|");
  EXPECT_EQ(opened({.paths = {folder}, .end_of_document = false, .sequence = 1}), "the endoncex");
  EXPECT_EQ(opened({.paths = {folder}, .endings = {"b.txt", "d.txt"}, .sequence = 1}), "once|x|");
  EXPECT_EQ(opened({.paths = {folder / "b.txt", folder / "a.txt"}, .sequence = 1}), "once|the end|");
}

TEST(Corpus, WhatIsHeldOutIsLeftOutUnderEveryName) {
  const fs::path folder = test_folder();
  put(folder / "a.txt", "train");
  put(folder / "b.txt", "held out");
  put(folder / "c/b.txt", "too");
  fs::create_symlink("b.txt", folder / "link.txt");
  EXPECT_EQ(opened({.paths = {folder}, .sequence = 1}), "train|held out|too|held out|");
  EXPECT_EQ(opened({.paths = {folder}, .left_out = folder / "b.txt", .sequence = 1}), "train|too|");
  EXPECT_EQ(opened({.paths = {folder}, .left_out = folder / "c/../link.txt", .sequence = 1}), "train|too|");
  EXPECT_EQ(opened({.paths = {folder}, .left_out = folder / "c", .sequence = 1}), "train|held out|held out|");
  EXPECT_THAT(opened({.paths = {folder / "b.txt"}, .left_out = folder / "b.txt", .sequence = 1}),
              HasSubstr("which is left out"));
}

TEST(Corpus, BytesBeyondAsciiAreTheirOwnIds) {
  const fs::path folder = test_folder();
  put(folder / "a.txt", "\xff\x80");
  const auto corpus = Corpus::open({.paths = {folder}, .sequence = 2});
  std::vector<int64_t> tokens(3);
  ASSERT_TRUE(corpus && corpus->read(0, tokens));
  EXPECT_THAT(tokens, ElementsAre(255, 128, kByteEndOfDocument));
}

TEST(Corpus, SeparatorsEndDocuments) {
  const fs::path folder = test_folder();
  put(folder / "a.txt", "<eod>one<eod><eod>two<eo");
  put(folder / "b.txt", "three<eod>");
  CorpusOptions options{.paths = {folder}, .document_separator = "<eod>", .sequence = 1};
  EXPECT_EQ(opened(options), "one|two<eo|three|");
  options.end_of_document = false;
  EXPECT_EQ(opened(options), "onetwo<eothree");
}

TEST(Corpus, JsonLinesAreDocuments) {
  const fs::path folder = test_folder();
  put(folder / "a.jsonl",
      "{\"id\": 1, \"text\": \"one\", \"more\": [{\"text\": 3}]}\r\n\n{\"text\": \"\"}\n"
      "{\"text\":\"t\\u0077o\"}");
  EXPECT_EQ(opened({.paths = {folder}, .sequence = 1}), "one|two|");
  put(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"body\": \"two\"}\n");
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 1}),
              HasSubstr("a.jsonl:2, byte 16, key \"text\": is missing in this line"));
  put(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 1}), HasSubstr("a.jsonl:2, key \"text\": is no string"));
  put(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"tw\n");
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 1}), HasSubstr("a.jsonl:2, byte 28: isn't JSON"));
  put(folder / "a.jsonl", "[\"text\"]\n");
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 1}), HasSubstr("a.jsonl:1: is no object"));
}

// Documents longer and shorter than what lies between two notes of the index, read from every note on.
TEST(Corpus, TheIndexFindsEveryToken) {
  const fs::path folder = test_folder();
  std::string lines, separated, expected;
  for (int i = 0; i < 300; ++i) {
    std::string document(static_cast<size_t>(i % 97 == 0 ? 200'000 : i * 7 % 3000), 'a');
    for (size_t at = 0; at < document.size(); ++at) document[at] = static_cast<char>('a' + (at + i) % 26);
    lines += "{\"text\":\"" + document + "\"}\n";
    separated += document + "<eod>";
    expected += document.empty() ? "" : document + "|";
  }
  put(folder / "lines/a.jsonl", lines);
  put(folder / "text/a.txt", separated);
  for (const auto& [path, separator] : {std::pair("lines", ""), std::pair("text", "<eod>")}) {
    const auto corpus =
        Corpus::open({.paths = {folder / path}, .document_separator = separator, .sequence = 1023});
    ASSERT_TRUE(corpus) << corpus.error().to_text();
    EXPECT_EQ(corpus->tokens(), static_cast<int64_t>(expected.size()));
    const std::string text = text_of(*corpus);
    EXPECT_TRUE(text == expected.substr(0, text.size())) << path;
    EXPECT_EQ(static_cast<int64_t>(text.size()), corpus->windows() * 1023 + 1);
    EXPECT_LE(corpus->index_bytes(), 24 * (lines.size() / 65536 + 2));
  }
}

TEST(Corpus, TokenFilesHaveASidecarOrOptions) {
  const fs::path folder = test_folder();
  const auto error = [&](const CorpusOptions& options) {
    const auto corpus = Corpus::open(options);
    return corpus ? "" : corpus.error().to_text();
  };
  put(folder / "a.bin", std::string("\1\0\2\0\3\1", 6));
  EXPECT_THAT(error({.paths = {folder}, .sequence = 2}), HasSubstr("has no sidecar that says its dtype"));
  EXPECT_THAT(
      error({.paths = {folder}, .token_width = TokenWidth::kUInt32, .vocabulary = 300, .sequence = 1}),
      AllOf(HasSubstr("has 6 bytes"), HasSubstr("whole tokens of uint32")));
  put(folder / "a.bin.json",
      R"({"format":"plimsoll.tokens/1","dtype":"uint16","vocabulary":260,"tokens":3,"end_of_document":null})");
  const auto corpus = Corpus::open({.paths = {folder}, .sequence = 2});
  ASSERT_TRUE(corpus) << corpus.error().to_text();
  std::vector<int64_t> tokens(3);
  ASSERT_TRUE(corpus->read(0, tokens));
  EXPECT_THAT(tokens, ElementsAre(1, 2, 259));
  EXPECT_THAT(error({.paths = {folder}, .vocabulary = 259, .sequence = 2}),
              AllOf(HasSubstr("token ids up to 259"), HasSubstr("ids below 259")));
  EXPECT_THAT(error({.paths = {folder}, .token_width = TokenWidth::kUInt32, .sequence = 2}),
              HasSubstr("key \"dtype\": is uint16"));
  put(folder / "a.bin", std::string("\1\0\2\0\3\1\4\0", 8));
  EXPECT_THAT(error({.paths = {folder}, .sequence = 2}), HasSubstr("6 bytes, as "));
}

TEST(Corpus, AnIdBeyondTheVocabularyIsNamedWithItsPlace) {
  const fs::path folder = test_folder();
  put(folder / "a.bin", std::string("\1\0\0\0\2\0\0\0\3\1\0\0", 12));
  const auto corpus =
      Corpus::open({.paths = {folder}, .token_width = TokenWidth::kUInt32, .vocabulary = 259, .sequence = 1});
  ASSERT_TRUE(corpus);
  std::vector<int64_t> tokens(2);
  EXPECT_TRUE(corpus->read(0, tokens));
  const auto read = corpus->read(1, tokens);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().to_text(), HasSubstr("a.bin, byte 8: holds the token id 259"));
}

TEST(Corpus, SidecarsAreChecked) {
  const auto error = [](const std::string& text) {
    return parse_token_sidecar(text, "t.bin.json").error().to_text();
  };
  EXPECT_THAT(error(R"({"format":"plimsoll.tokens/2"})"),
              HasSubstr("key \"format\": is \"plimsoll.tokens/2\""));
  EXPECT_THAT(error(R"({"format":"plimsoll.tokens/1"})"), HasSubstr("key \"dtype\": is missing"));
  EXPECT_THAT(error(R"({"dtype":"int16"})"), HasSubstr("uint16 or uint32"));
  EXPECT_THAT(error(R"({"tokens":-1})"), HasSubstr("key \"tokens\": is no count"));
  EXPECT_THAT(error(R"({"token":1})"), HasSubstr("is no key of a sidecar"));
  EXPECT_THAT(error(R"({"tokens":[1]})"), HasSubstr("deeper"));
}

TEST(Corpus, FilesThatChangeOrVanishAreErrors) {
  const fs::path folder = test_folder();
  put(folder / "a.txt", "the end");
  const auto corpus = Corpus::open({.paths = {folder}, .sequence = 4});
  ASSERT_TRUE(corpus);
  put(folder / "a.txt", "the end of it");
  EXPECT_THAT(text_of(*corpus), HasSubstr("a.txt: isn't the file that it was"));
  fs::remove(folder / "a.txt");
  EXPECT_THAT(text_of(*corpus), HasSubstr("a.txt: can't be opened: No such file"));
}

TEST(Corpus, RefusesWhatCantBeTrainedOn) {
  const fs::path folder = test_folder();
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 4}), HasSubstr("has no files to train on"));
  EXPECT_THAT(opened({.paths = {folder / "a.txt"}, .sequence = 4}), HasSubstr("No such file"));
  put(folder / "a.txt", "abc");
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 4}),
              AllOf(HasSubstr("the corpus has 4 tokens"), HasSubstr("at least 5")));
  EXPECT_THAT(opened({.paths = {folder}, .vocabulary = 256, .sequence = 2}),
              HasSubstr("token ids up to 256"));
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 0}), HasSubstr("key \"sequence\": is 0"));
  put(folder / "b.jsonl", "{}");
  EXPECT_THAT(opened({.paths = {folder}, .sequence = 2}), HasSubstr("b.jsonl: is of another format"));
}

TEST(Corpus, TheFingerprintIsOfWhatIsTrainedOn) {
  const fs::path folder = test_folder();
  put(folder / "one/a.txt", "the end");
  put(folder / "two/b.txt", "the end");
  put(folder / "three/b.txt", "the ends");
  const auto print = [&](const char* name, int64_t sequence) {
    return Corpus::open({.paths = {folder / name}, .sequence = sequence})->fingerprint();
  };
  EXPECT_EQ(print("one", 2), print("two", 2));
  EXPECT_NE(print("one", 2), print("three", 2));
  EXPECT_NE(print("one", 2), print("one", 3));
}

}  // namespace
}  // namespace plimsoll
