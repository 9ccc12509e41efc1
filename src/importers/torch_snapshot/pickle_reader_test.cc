#include "importers/torch_snapshot/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

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
  std::optional<PickleValue> take_list(std::span<const PickleValue>) override {
    ++lists_seen;
    return std::nullopt;
  }
  bool is_sequenced(uint8_t) const override { return true; }
  std::vector<int64_t> taken;
  int lists_seen = 0;
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

// FRAME says nothing: so many bytes that what stands before them isn't near the end, where steps are others.
const std::string kPadding = [] {
  std::string frames;
  while (frames.size() < 2 * ByteSource::kMargin) frames += "\x95\x00\x00\x00\x00\x00\x00\x00\x00"s;
  return frames;
}();

int64_t integer_of(const std::string& opcodes) {
  Reading at_end("\x80\x02"s + opcodes + "."), before(std::string("\x80\x02") + opcodes + kPadding + ".");
  const Result<PickleValue> root = at_end.reader.read(), same = before.reader.read();
  EXPECT_TRUE(root && same);
  if (!root || !same) return 0;
  EXPECT_EQ(root->kind, same->kind);
  EXPECT_EQ(root->integer, same->integer);
  return root->integer;
}

TEST(PickleReader, ReadsNumbers) {
  EXPECT_EQ(integer_of("K\xff"s), 255);
  EXPECT_EQ(integer_of("M\x01\x02"s), 513);
  EXPECT_EQ(integer_of("J\xff\xff\xff\xff"s), -1);
  EXPECT_EQ(integer_of("\x8a\x00"s), 0);
  EXPECT_EQ(integer_of("\x8a\x01\x80"s), -128);
  EXPECT_EQ(integer_of("\x8a\x02\xff\x7f"s), 32767);
  EXPECT_EQ(integer_of("\x8a\x07\x00\x00\x00\x00\x00\x00\x80"s), -(int64_t{1} << 55));
  EXPECT_EQ(integer_of("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"s), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(integer_of("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"s), std::numeric_limits<int64_t>::min());
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

TEST(PickleReader, TheMemoGivesBackWhatWasPut) {
  // more strings than a piece of the memo has, then the first, the last, and one that is far back
  std::string opcodes;
  constexpr uint32_t kStrings = 3 * PickleMemo::kPiece / 2;
  for (uint32_t i = 0; i < kStrings; ++i) {
    const std::string text = std::to_string(i);
    opcodes += "\x8c"s + static_cast<char>(text.size()) + text + "\x94";
  }
  const auto get = [](uint32_t index) {
    std::string opcode = "j";
    for (int byte = 0; byte < 4; ++byte) opcode += static_cast<char>(index >> (8 * byte));
    return opcode;
  };
  for (const std::string& padding : {std::string(), kPadding}) {
    Reading r("\x80\x04]("s + opcodes + get(0) + get(kStrings - 1) + get(PickleMemo::kPiece) + "e" + padding +
              ".");
    const Result<PickleValue> root = r.reader.read();
    ASSERT_TRUE(root) << root.error().to_text();
    ASSERT_EQ(r.reader.items(*root).size(), kStrings + 3);
    const std::span<const PickleValue> items = r.reader.items(*root).subspan(kStrings);
    EXPECT_EQ(r.reader.string(items[0]), "0");
    EXPECT_EQ(r.reader.string(items[1]), std::to_string(kStrings - 1));
    EXPECT_EQ(r.reader.string(items[2]), std::to_string(PickleMemo::kPiece));
    EXPECT_THAT(error_of("\x80\x04]("s + opcodes + get(kStrings) + padding), HasSubstr("was never written"));
  }
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

std::string little_endian(uint32_t number) {
  std::string bytes;
  for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(number >> (8 * byte));
  return bytes;
}

// What a jump passes over takes memory, so that jumps add up.
TEST(PickleReader, TheMemoJumpsOnlyOnce) {
  const std::string jump = "\x80\x02Nr" + little_endian(PickleMemo::kPiece);
  EXPECT_EQ(error_of(jump + "r" + little_endian(PickleMemo::kPiece + 1) + "."), "no error");
  EXPECT_THAT(error_of(jump + "r" + little_endian(PickleMemo::kPiece + 2) + "."),
              HasSubstr("memo entry 65538 far beyond the 65537 before it"));
}

// A list of many is looked at when a dict has it, and not again in the next dicts.
TEST(PickleReader, AListThatIsNotTakenIsAskedAboutOnce) {
  std::string pickle = "\x80\x02](X\x01\x00\x00\x00"s + "bq\x00]q\x01"s;
  const std::string batch = "(" + std::string(1000, 'N') + "e";
  pickle += batch + batch;
  for (int dict = 0; dict < 50; ++dict) pickle += "}h\x00h\x01s"s;
  Reading r(pickle + "e.");
  const Result<PickleValue> root = r.reader.read();
  ASSERT_TRUE(root) << root.error().to_text();
  EXPECT_EQ(r.sink.lists_seen, 2) << "that list and the one of the dicts";
}

TEST(PickleReader, ContainersWithoutEndAreBounded) {
  EXPECT_THAT(error_of("\x80\x02" + std::string(PickleReader::kMostContainers + 1, ']')),
              HasSubstr("too many dicts and lists"));
}

}  // namespace
}  // namespace plimsoll
