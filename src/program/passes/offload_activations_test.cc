#include "program/passes/offload_activations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "program/text.h"
#include "program/verify.h"

namespace plimsoll {
namespace {

using testing::ElementsAre;

// Three blocks that each make and keep one tensor, which their backward reads. Storages 3, 4, 5 are of the
// backward; of block 1 nothing is read again where `is_read` is false.
Program three_blocks(bool is_read = true) {
  const std::string of_block_1 = is_read ? "%4:fp32[64] s4 temporary = Neg(%1)\nfree s4 local\n"
                                         : "%4:fp32[64] s4 temporary = Empty()\nfree s4 local\n";
  const std::string text =
      "plimsoll program 1 complete\n"
      "section 0 begin \"forward\"\n"
      "%0:fp32[64] s0 = Empty()\n%1:fp32[64] s1 = Empty()\n%2:fp32[64] s2 = Empty()\n"
      "section 0 end\nsection 1 begin \"backward\"\n"
      "%6:fp32[1] s6 temporary = Empty()\nfree s6 local\n%3:fp32[64] s3 temporary = Neg(%2)\nfree s3 "
      "local\nfree s2 saved\n" +
      of_block_1 +
      "free s1 saved\n"
      "%5:fp32[64] s5 temporary = Neg(%0)\nfree s5 local\nfree s0 saved\n"
      "section 1 end\nplay 0 as \"fwd1\"\nplay 1 as \"bwd1\"\n";
  Result<Program> program = parse_program(text, "test");
  EXPECT_TRUE(program) << program.error().to_text();
  return std::move(*program);
}

const std::vector<BlockSpans> kBlocks = {
    {.forward_begin = 0, .forward_end = 1, .backward_begin = 11, .backward_end = 14},
    {.forward_begin = 1, .forward_end = 2, .backward_begin = 8, .backward_end = 11},
    {.forward_begin = 2, .forward_end = 3, .backward_begin = 5, .backward_end = 8}};

// "CopyToHost s0", "free s1"
std::vector<std::string> statements_of(const Program& p, uint32_t section) {
  std::vector<std::string> texts;
  for (uint32_t i = p.sections[section].first_statement; i < p.sections[section].last_statement; ++i) {
    const Statement& s = p.statements[i];
    std::ostringstream text;
    if (s.kind == StatementKind::kFree) {
      text << "free s" << s.index;
    } else {
      const Op& op = p.ops[s.index];
      text << name_of(op.kind);
      const auto tensors = op.input_count > 0 ? p.inputs(op) : p.outputs(op);
      for (TensorId t : tensors) text << " s" << p.tensor(t).storage.value;
    }
    texts.push_back(text.str());
  }
  return texts;
}

Program offloaded(Program program, Bytes least) {
  EXPECT_TRUE(offload_activations(program, {&kBlocks, 1}, {.to = Tier::kHost, .least = least}));
  const Result<void> holds = verify(program);
  EXPECT_TRUE(holds) << holds.error().to_text();
  return program;
}

TEST(OffloadActivations, LeaveAfterTheForwardAndComeOneBlockAhead) {
  const Program p = offloaded(three_blocks(), Bytes{256});
  EXPECT_THAT(statements_of(p, 0), ElementsAre("Empty s0", "CopyToHost s0", "Empty s1", "CopyToHost s1",
                                               "free s0", "Empty s2", "free s1"));
  EXPECT_THAT(
      statements_of(p, 1),
      ElementsAre("Empty s6", "free s6", "Resize s1", "CopyInPlace s1 s8", "Neg s2", "free s3", "free s2",  //
                  "Resize s0", "CopyInPlace s0 s7", "Neg s1", "free s4", "free s1", "free s8", "Neg s0",
                  "free s5", "free s0", "free s7"));
  EXPECT_EQ(p.storages[7].tier, Tier::kHost);
  EXPECT_EQ(p.storages[7].bytes, Bytes{256});
}

TEST(OffloadActivations, WhatIsSmallerStays) {
  EXPECT_EQ(to_text(offloaded(three_blocks(), Bytes{257})), to_text(three_blocks()));
}

TEST(OffloadActivations, WhatNobodyReadsAgainIsGivenBackAndNotCopied) {
  const Program p = offloaded(three_blocks(false), Bytes{0});
  EXPECT_THAT(statements_of(p, 0),
              ElementsAre("Empty s0", "CopyToHost s0", "Empty s1", "free s0", "free s1", "Empty s2"));
  EXPECT_THAT(statements_of(p, 1), ElementsAre("Empty s6", "free s6", "Neg s2", "free s3", "free s2",
                                               "Resize s0", "CopyInPlace s0 s7", "Empty s4", "free s4",
                                               "Neg s0", "free s5", "free s0", "free s7"));
}

}  // namespace
}  // namespace plimsoll
