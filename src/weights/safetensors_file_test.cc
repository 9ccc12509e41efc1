#include "weights/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "weights/weights_test_helpers.h"

namespace plimsoll {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::string& image) {
  const std::filesystem::path path = test_folder() / "model.safetensors";
  put(path, image);
  const auto file = SafetensorsFile::open(path);
  return file ? "" : file.error().to_text();
}
std::string error_of(const std::string& json, const std::string& data) {
  return error_of(image_of(json, data));
}
std::string tensor(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// The bytes that safetensors 0.8 (Python) writes for these two tensors.
const std::string kOfPython = image_of(
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]}})"
    "    ",
    "ABCDEFGH");

TEST(SafetensorsFile, ReadsWhatTheReferenceWrites) {
  const std::filesystem::path path = test_folder() / "model.safetensors";
  put(path, kOfPython);
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().to_text();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors()[0].name, "b");
  EXPECT_TRUE(file->tensors()[0].shape.empty());
  const StoredTensor* a = file->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->type.dtype, DType::kBFloat16);
  EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 1}));
  std::string part(2, ' ');
  ASSERT_TRUE(file->read(*a, 1, std::as_writable_bytes(std::span(part))));
  EXPECT_EQ(part, "FG");
  EXPECT_EQ(file->find("c"), nullptr);
}

TEST(SafetensorsFile, TruncatedAtEveryByteIsAnError) {
  for (size_t length = 0; length < kOfPython.size(); ++length)
    EXPECT_NE(error_of(kOfPython.substr(0, length)), "") << length;
  EXPECT_EQ(error_of(kOfPython), "");
  EXPECT_THAT(error_of(kOfPython + "!"), HasSubstr("holds 9 bytes of data, but the last tensor ends at 8"));
}

TEST(SafetensorsFile, RefusesBadHeaders) {
  EXPECT_THAT(error_of(std::string("\xff\xff\xff\xff\0\0\0\0", 8) + "{}"),
              HasSubstr("has a header of 4294967295 bytes, more than 100000000"));
  EXPECT_THAT(error_of("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(error_of(std::string("PK\3\4\0\0\x08\x08", 8) + "archive/data.pkl"), HasSubstr("torch.save()"));
  EXPECT_THAT(error_of("\x80\x02}q\x01(X\x06"), HasSubstr("safe_serialization=True"));
  EXPECT_THAT(error_of("[]", ""), HasSubstr("doesn't begin with {"));
  EXPECT_THAT(error_of("{\"a\" 1}", ""), HasSubstr("byte 13: isn't JSON"));
  EXPECT_THAT(error_of(std::string("{}\0", 3), ""), HasSubstr("byte 10: has a byte of value 0"));
  EXPECT_THAT(error_of(R"({"a":1})", ""), HasSubstr("key \"a\": is no object"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"x":1}})", ""), HasSubstr("key \"__metadata__.x\": is no string"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"x":[[1]]}})", ""), HasSubstr("is a list\n  expected: a string"));
}

TEST(SafetensorsFile, RefusesBadTensors) {
  const auto error = [](const std::string& text, const std::string& data = "ABCD") {
    return error_of("{\"a\":" + text + "}", data);
  };
  EXPECT_EQ(error(tensor("F32", "[1]", "[0,4]")), "");
  EXPECT_THAT(error(tensor("F33", "[1]", "[0,4]")), HasSubstr("key \"a.dtype\": \"F33\" is unknown"));
  EXPECT_THAT(error(tensor("F32", "[2]", "[0,4]")),
              AllOf(HasSubstr("has 4 bytes of data"), HasSubstr("expected: 8 bytes")));
  EXPECT_THAT(error(tensor("F32", "[-1]", "[0,4]")), HasSubstr("key \"a.shape[0]\": is no size"));
  EXPECT_THAT(error(tensor("F32", "[1.0]", "[0,4]")), HasSubstr("is no size"));
  EXPECT_THAT(error(tensor("F32", "[18446744073709551616]", "[0,4]")), HasSubstr("is no size"));
  EXPECT_THAT(error(tensor("F32", "[[1]]", "[0,4]")), HasSubstr("deeper than 3"));
  EXPECT_THAT(error(tensor("F32", "[4294967296,4294967296,4294967296]", "[0,4]")),
              HasSubstr("no whole bytes"));
  EXPECT_THAT(error(tensor("F4", "[3]", "[0,1]")), HasSubstr("no whole bytes"));
  EXPECT_THAT(error(tensor("F32", "[1]", "[4,0]")), HasSubstr("ends before it begins"));
  EXPECT_THAT(error(tensor("F32", "[1]", "[0,4,4]")), HasSubstr("has 3 data offsets"));
  EXPECT_THAT(error(R"({"shape":[1],"data_offsets":[0,4]})"), HasSubstr("has no \"dtype\""));
  EXPECT_THAT(error(R"({"dtype":"F32","data_offsets":[0,4]})"), HasSubstr("has no \"shape\""));
  EXPECT_THAT(error(R"({"dtype":"F32","dtype":"F32"})"), HasSubstr("key \"a.dtype\": is there twice"));
  EXPECT_THAT(error(R"({"dtype":"F32","device":"cpu"})"), HasSubstr("key \"a.device\": has no place here"));
  EXPECT_THAT(error(tensor("F32", "[1]", "[0,4]") + ",\"a\":{}"), HasSubstr("key \"a\": is there twice"));
}

TEST(SafetensorsFile, RefusesHolesOverlapsAndMissingData) {
  const auto two = [](const std::string& first, const std::string& second) {
    return error_of("{\"a\":" + tensor("U8", "[4]", first) + ",\"b\":" + tensor("U8", "[4]", second) + "}",
                    "ABCDEFGH");
  };
  EXPECT_EQ(two("[4,8]", "[0,4]"), "");
  EXPECT_THAT(two("[0,4]", "[3,7]"), AllOf(HasSubstr("key \"b\""), HasSubstr("overlap")));
  EXPECT_THAT(two("[1,5]", "[5,9]"), HasSubstr("holes"));
  EXPECT_THAT(two("[0,4]", "[5,9]"), HasSubstr("ends at byte 9 of the data, but the file holds 8"));
}

TEST(SafetensorsFile, EmptyTensorsTakeNoPlace) {
  EXPECT_EQ(error_of("{\"a\":" + tensor("F32", "[0,7]", "[4,4]") + ",\"b\":" + tensor("U8", "[4]", "[0,4]") +
                         ",\"c\":" + tensor("F32", "[0]", "[0,0]") + "}",
                     "ABCD"),
            "");
}

TEST(SafetensorsFile, TypesThatNothingComputesInAreReadToo) {
  const std::filesystem::path path = test_folder() / "model.safetensors";
  put(path, image_of("{\"a\":" + tensor("F4", "[2]", "[0,1]") + "}", "A"));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().to_text();
  EXPECT_FALSE(file->find("a")->type.dtype.has_value());
  EXPECT_EQ(file->find("a")->bytes(), 1u);
}

TEST(SafetensorsFile, AFileThatChangesIsAnError) {
  const std::filesystem::path path = test_folder() / "model.safetensors";
  put(path, kOfPython);
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, kOfPython.size() - 1);
  std::string part(4, ' ');
  const auto read = file->read(*file->find("b"), 0, std::as_writable_bytes(std::span(part)));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().to_text(),
              AllOf(StartsWith(path.string()), HasSubstr("bytes when it was opened")));
}

}  // namespace
}  // namespace plimsoll
