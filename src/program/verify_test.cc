#include "program/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/text.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

// The failure's message; empty when the program holds.
std::string failure(const std::string& text, const VerifyOptions& options = {}) {
  const Result<Program> program = parse_program(text, "fixture");
  if (!program) return program.error().to_text();
  const Result<void> result = verify(*program, options);
  return result ? "" : result.error().to_text();
}

std::string forward(const std::string& statements) {
  return "plimsoll program 1 forward\n"
         "tensor %0:bf16[2,4] input\n"
         "region r0 block @a (%0) -> (%1)\n"
         "region r1 block @b (%0) -> ()\n" +
         statements;
}

TEST(VerifyForward, HoldsForAProgramInOrder) {
  EXPECT_EQ(failure(forward("begin r0\nbegin r1\nend r1\n%1:bf16[2,4] = Silu(%0)\nend r0\ndrop %0\n")), "");
}

TEST(VerifyForward, NamesTheStatementThatBreaksARule) {
  const std::string silu = "%1:bf16[2,4] = Silu(%0)\n";
  EXPECT_THAT(failure(forward(silu + "drop %0\n%2:bf16[2,4] = Silu(%0)\n")),
              HasSubstr("statement 2: %2:bf16[2,4] s2 = Silu(%0): %0 was dropped"));
  EXPECT_THAT(failure(forward(silu + "drop %1\ndrop %1\n")),
              HasSubstr("statement 2: drop %1: %1 was dropped"));
  EXPECT_THAT(failure(forward("%2:bf16[2,4] = Silu(%1)\n" + silu)), HasSubstr("%1 isn't made yet"));
  EXPECT_THAT(failure(forward(silu + "%1 = Silu(%0)\n")), HasSubstr("%1 is made a second time"));
  EXPECT_THAT(failure(forward(silu + "free s1 local\n")), HasSubstr("a free in a forward program"));
  EXPECT_THAT(failure(forward("begin r0\nbegin r1\n" + silu + "end r0\nend r1\n")),
              HasSubstr("end r0: regions don't nest"));
  EXPECT_THAT(failure(forward("begin r0\n" + silu)), HasSubstr("region r0 has no end"));
  EXPECT_THAT(failure(forward("begin r0\nend r0\n" + silu)), HasSubstr("end r0: %1 isn't made yet"));
  EXPECT_THAT(failure(forward("begin r1\nend r1\nbegin r1\nend r1\n" + silu)),
              HasSubstr("the region begins a second time"));
}

TEST(VerifyTables, ATensorFitsIntoItsStorageAndSharesIt) {
  EXPECT_THAT(failure("plimsoll program 1 forward\ntensor %0:bf16[2,4] bytes=15 input\n"),
              HasSubstr("tensor %0 (16 bytes) doesn't fit into storage s0 (15 bytes)"));
  EXPECT_THAT(failure("plimsoll program 1 forward\ntensor %0:bf16[2,4] input\n"
                      "tensor %1:bf16[2,4] input\n%2:bf16[8] view s1 = View(%0)\n"),
              HasSubstr("a result doesn't share its input's storage"));
  EXPECT_THAT(failure("plimsoll program 1 forward\ntensor %0:bf16[2,4] input\nAllReduce(%0) {group 0}\n"),
              HasSubstr("names group 0 of 0"));
}

std::string complete(const std::string& statements) {
  return "plimsoll program 1 complete\nsection 0 begin \"load\"\n%0:bf16[8] s0 parameter = Empty()\n"
         "section 0 end\nsection 1 begin \"step\"\n" +
         statements + "section 1 end\nplay 0 as \"load\"\nplay 1 as \"step1\"\nplay 1 as \"step2\"\n";
}

TEST(VerifyComplete, HoldsForSectionsThatArePlayedTwice) {
  EXPECT_EQ(failure(complete("%1:bf16[8] s1 = Silu(%0)\nfree s1 local\n")), "");
}

TEST(VerifyComplete, NamesThePhaseAndTheStatement) {
  EXPECT_THAT(
      failure(complete("%1:bf16[8] s1 = Silu(%0)\nfree s1 local\n%2:bf16[8] s2 = Silu(%1)\n")),
      HasSubstr("%2:bf16[8] s2 = Silu(%1): in phase \"step1\", it reads %1, whose storage s1 isn't live"));
  EXPECT_THAT(failure(complete("%1:bf16[8] s1 = Silu(%0)\n")),
              HasSubstr("in phase \"step2\", storage s1 is live already"));
  EXPECT_THAT(failure(complete("free s0 persistent\n")),
              HasSubstr("free s0 persistent: in phase \"step2\", the storage isn't live"));
  EXPECT_THAT(failure(complete("drop %0\n")), HasSubstr("a statement of a forward program"));
  EXPECT_THAT(failure("plimsoll program 1 complete\n%0:bf16[8] s0 parameter = Empty()\n"),
              HasSubstr("it belongs to no section"));
}

TEST(VerifyComplete, WhatIsOnDiskIsReadBeforeItIsComputedWith) {
  const std::string place = "%1:bf16[8] s1 temporary disk = Empty()\n",
                    end = "free s2 local\nfree s1 local\n";
  EXPECT_EQ(failure(complete(place + "%2:bf16[8] s2 temporary host = ReadFromDisk(%1)\n" + end)), "");
  EXPECT_THAT(failure(complete(place + "%2:bf16[8] s2 temporary host = Silu(%1)\n" + end)),
              HasSubstr("it computes with %1, which is on disk"));
}

TEST(VerifyComplete, OnlyWhatPersistsIsLeft) {
  const auto program = [](const std::string& category) {
    return "plimsoll program 1 complete\nsection 0 begin \"load\"\n%0:bf16[8] s0 " + category +
           " = Empty()\nsection 0 end\nplay 0 as \"load\"\n";
  };
  EXPECT_EQ(failure(program("optimizer_state")), "");
  EXPECT_THAT(failure(program("temporary")),
              HasSubstr("storage s0 (temporary, 16 bytes, of ) is left at the end"));
  EXPECT_THAT(failure(program("gradient")), HasSubstr("is left at the end"));
  EXPECT_EQ(failure(program("gradient"), {.may_keep_gradients = true}), "");
  EXPECT_THAT(failure(program("logits")), HasSubstr("is left at the end"));
  EXPECT_EQ(failure(program("logits"), {.may_keep_outputs = true}), "");
}

}  // namespace
}  // namespace plimsoll
