#include "importers/torch_snapshot/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "importers/torch_snapshot/pickle_opcodes.h"

namespace plimsoll {
namespace {

using std::string_literals::operator""s;
using ::testing::HasSubstr;

// Takes dicts with a key "a" as objects of type 1, in sequence, and leaves others as they are.
class Sink : public PickleSink {
 public:
  Result<std::optional<PickleValue>> take_dict(PickleReader& reader,
                                               std::span<const PickleValue> items) override {
    if (reader.string(items[0]) != "a") return std::optional<PickleValue>();
    taken.push_back(items[1].integer);
    return std::optional(PickleValue::object(1, static_cast<uint32_t>(taken.size() - 1)));
  }
  std::optional<PickleValue> take_list(std::span<const PickleValue>) override { return std::nullopt; }
  bool is_sequenced(uint8_t) const override { return true; }
  std::vector<int64_t> taken;
};

struct Reading {
  explicit Reading(std::string bytes)
      : pickle(std::move(bytes)),
        source(ByteSource::of(pickle)),
        reader(*source, "test.pickle", strings, sink) {}
  std::string pickle;
  std::unique_ptr<ByteSource> source;
  StringTable strings;
  Sink sink;
  PickleReader reader;
};

std::string error_of(std::string pickle) {
  Reading r(std::move(pickle));
  const Result<PickleValue> root = r.reader.read();
  return root ? "no error" : root.error().to_text();
}

int64_t integer_of(std::string opcodes) {
  Reading r("\x80\x02"s + opcodes + ".");
  const Result<PickleValue> root = r.reader.read();
  EXPECT_TRUE(root);
  return root ? root->integer : 0;
}

TEST(PickleReader, ReadsNumbers) {
  EXPECT_EQ(integer_of("K\xff"s), 255);
  EXPECT_EQ(integer_of("M\x01\x02"s), 513);
  EXPECT_EQ(integer_of("J\xff\xff\xff\xff"s), -1);
  EXPECT_EQ(integer_of("\x8a\x00"s), 0);
  EXPECT_EQ(integer_of("\x8a\x01\x80"s), -128);
  EXPECT_EQ(integer_of("\x8a\x06\x00\x00\x00\x00\x00\x01"s), int64_t{1} << 40);
}

TEST(PickleReader, ReadsAddressesAbove63Bits) {
  Reading r("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."s);
  const Result<PickleValue> root = r.reader.read();
  ASSERT_TRUE(root);
  EXPECT_EQ(root->kind, PickleKind::kUnsigned);
  EXPECT_EQ(root->unsigned_integer, uint64_t{1} << 63);
}

TEST(PickleReader, TakesDictsAsTheyEnd) {
  // [{"a": 7}, {"a": 8}] with its strings and containers in the memo, as Python writes it
  Reading r(
      "\x80\x04]\x94(}\x94\x8c\x01"
      "a\x94K\x07s}\x94h\x02K\x08se."s);
  const Result<PickleValue> root = r.reader.read();
  ASSERT_TRUE(root) << root.error().to_text();
  EXPECT_THAT(r.sink.taken, ::testing::ElementsAre(7, 8));
  const std::optional<ObjectRange> range = r.reader.objects(*root);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->count, 2U);
}

TEST(PickleReader, WhatRunsCodeIsRefusedWithItsByte) {
  // os.system("true"): GLOBAL stands at byte 2, before anything is called
  EXPECT_THAT(error_of("\x80\x02"
                       "cos\nsystem\n(X\x04\x00\x00\x00truetR."s),
              HasSubstr("test.pickle, byte 2: opcode GLOBAL is refused: a pickle can run code with it"));
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (!runs_code(static_cast<uint8_t>(opcode))) continue;
    const std::string pickle = "\x80\x02]"s + static_cast<char>(opcode);
    EXPECT_THAT(error_of(pickle), HasSubstr("byte 3: opcode")) << opcode;
    EXPECT_THAT(error_of(pickle), HasSubstr("is refused")) << opcode;
  }
}

TEST(PickleReader, NoByteBehindARefusedOpcodeIsRead) {
  Reading r(
      "\x80\x02"
      "cos\n"s);
  ASSERT_FALSE(r.reader.read());
  EXPECT_EQ(r.source->offset(), 3U);
}

TEST(PickleReader, OtherOpcodesAreNamed) {
  EXPECT_THAT(error_of("\x80\x02I1\n."s), HasSubstr("byte 2: opcode INT is not used by memory snapshots"));
  EXPECT_THAT(error_of("\x80\x02\xff"s), HasSubstr("byte 2: byte 0xff is no opcode of pickle"));
  EXPECT_THAT(error_of("\x80\x07"s), HasSubstr("pickle protocol 7"));
  EXPECT_THAT(error_of("PK\x03\x04"s), HasSubstr("is no pickle of protocol 2 to 5"));
}

TEST(PickleReader, BrokenStructureIsAnError) {
  EXPECT_THAT(error_of("\x80\x02"
                       "e."s),
              HasSubstr("without its MARK"));
  EXPECT_THAT(error_of("\x80\x02Na."s), HasSubstr("a list that is not there"));
  EXPECT_THAT(error_of("\x80\x02NNs."s), HasSubstr("a dict that is not there"));
  EXPECT_THAT(error_of("\x80\x02h\x05."s), HasSubstr("memo entry 5 was never written"));
  EXPECT_THAT(error_of("\x80\x02r\xff\xff\xff\xff."s), HasSubstr("nothing to remember"));
  EXPECT_THAT(error_of("\x80\x02Nr\xff\xff\xff\xff."s), HasSubstr("far beyond"));
  EXPECT_THAT(error_of("\x80\x02NN."s), HasSubstr("stops with 2 values"));
  EXPECT_THAT(error_of("\x80\x02."s), HasSubstr("stops with 0 values"));
  EXPECT_THAT(error_of("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s),
              HasSubstr("beyond 64 bits"));
  EXPECT_THAT(error_of("\x80\x02" + std::string(5000, '(') + "."), HasSubstr("nested too deeply"));
}

TEST(PickleReader, AListThatContainsItselfDoesNoHarm) {
  // x = []; x.append(x); the root is {"b": x}, then a dict that is taken
  EXPECT_EQ(error_of("\x80\x02}X\x01\x00\x00\x00"
                     "b]q\x00h\x00"
                     "as."s),
            "no error");
  EXPECT_EQ(error_of("\x80\x02}X\x01\x00\x00\x00"
                     "a]q\x00h\x00"
                     "as."s),
            "no error");
}

TEST(PickleReader, ContainersWithoutEndAreBounded) {
  EXPECT_THAT(error_of("\x80\x02" + std::string(PickleReader::kMostContainers + 1, ']')),
              HasSubstr("too many dicts and lists"));
}

}  // namespace
}  // namespace plimsoll
