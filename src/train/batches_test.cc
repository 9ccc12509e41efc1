#include "train/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// The corpus of a job with this [data].
Result<Batches> opened(const DataChoice& data, int64_t vocabulary = 300) {
  ResolvedJob job;
  job.data = data;
  job.batch = {.sequence = 2, .micro_batch = 1, .accumulation = 1, .global_batch = 1};
  return Batches::open(job, vocabulary, 0);
}
std::vector<int64_t> first_window(const DataChoice& data) {
  const auto batches = opened(data);
  EXPECT_TRUE(batches) << batches.error().to_text();
  std::vector<int64_t> window(3);
  EXPECT_TRUE(!batches || batches->corpus().read(0, window));
  return window;
}

TEST(Batches, SeparatorsAndEndsOfDocumentsAreTheJobs) {
  const fs::path text = test_folder() / "text.txt";
  put(text, "a--b--cde");
  EXPECT_THAT(first_window({.path = text}), ElementsAre('a', '-', '-'));
  EXPECT_THAT(first_window({.path = text, .document_separator = "--"}), ElementsAre('a', 256, 'b'));
  EXPECT_THAT(first_window({.path = text, .document_separator = "--", .end_of_document = false}),
              ElementsAre('a', 'b', 'c'));
}

TEST(Batches, TokensWithoutASidecarHaveTheJobsType) {
  const fs::path tokens = test_folder() / "tokens.bin";
  put(tokens, std::string("\1\0\2\0\3\0\4\0", 8));
  const auto without = opened({.path = tokens});
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().to_text(), HasSubstr("tokens.bin.json, or data.token_dtype in the job"));
  EXPECT_THAT(first_window({.path = tokens, .token_dtype = TokenDtype::kUInt16}), ElementsAre(1, 2, 3));
}

TEST(Batches, EndingsChooseFilesOfFolders) {
  const fs::path folder = test_folder();
  put(folder / "a.md", "page");
  put(folder / "b.py", "code");
  EXPECT_THAT(first_window({.path = folder, .endings = {".py"}}), ElementsAre('c', 'o', 'd'));
}

TEST(Batches, FieldsThatNoFileReadsAreRefused) {
  using enum CorpusFormat;
  const auto error = [](const DataChoice& data, const std::vector<CorpusFormat>& formats) {
    const auto done = check_data_fields(data, formats);
    return done ? "none" : done.error().to_text();
  };
  EXPECT_EQ(error({}, {kText}), "none");
  EXPECT_THAT(error({.json_key = "body"}, {kText}),
              HasSubstr("\"data.json_key\": has no effect: the files of data.path are text"));
  EXPECT_EQ(error({.json_key = "body"}, {kText, kJsonLines}), "none");  // those held out
  EXPECT_THAT(error({.document_separator = "--"}, {kJsonLines}), HasSubstr("data.document_separator"));
  EXPECT_THAT(error({.end_of_document = false}, {kTokens}), HasSubstr("data.end_of_document"));
  EXPECT_THAT(error({.token_dtype = TokenDtype::kUInt32}, {kText}), HasSubstr("data.token_dtype"));
}

}  // namespace
}  // namespace plimsoll
